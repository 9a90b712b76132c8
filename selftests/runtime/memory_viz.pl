#!/usr/bin/perl
# SPDX-License-Identifier: MIT
#
# Reads a snapshot as the memory viewer of PyTorch does: from the end back, event by event. Standard
# input: a line "block ADDRESS BYTES" for each block in use, then the snapshot. Argument "all": the
# history is all that there ever was, and nothing may be left at its beginning; "part": it is not.
use strict;
use warnings;
use JSON::PP;

my (%want, %is, @segments, %blocks, $line);
while (defined($line = <STDIN>) && $line =~ /^block (\d+) (\d+)$/) {
	$want{$1} = $2;
}
my $shot = decode_json(join '', $line // '', <STDIN>);

sub has {	# has(WHAT, HASH, KEYS): it has them all
	my ($what, $h, @keys) = @_;
	for my $k (@keys) {
		defined $h->{$k} or die "$what without $k\n";
	}
	for my $f (@{$h->{frames}}) {
		has('frame', $f, qw(name filename line));
	}
	return;
}

# ---- what there is ----

has('snapshot', $shot, qw(segments device_traces allocator_settings));
my ($device) = (grep({ @$_ } @{$shot->{device_traces}}) ? $#{$shot->{device_traces}} : 0);
for my $s (@{$shot->{segments}}) {
	has('segment', $s, qw(device address total_size allocated_size active_size requested_size
			      stream segment_type segment_pool_id is_expandable frames blocks));
	push @segments, { addr => $s->{address}, size => $s->{total_size}, stream => $s->{stream} };
	my $at = $s->{address};
	for my $b (@{$s->{blocks}}) {
		has('block', $b, qw(address size requested_size state frames));
		$b->{address} == $at or die "block at $b->{address}, not at $at\n";
		$at += $b->{size};
		$is{$b->{address}} = $b->{requested_size} if $b->{state} eq 'active_allocated';
		$blocks{$b->{address}} = 1 if $b->{state} =~ /^active_/;
	}
	$at == $s->{address} + $s->{total_size} or die "segment of $s->{total_size} ends at $at\n";
}
@segments = sort { $a->{addr} <=> $b->{addr} } @segments;
keys %is == keys %want or die keys(%is) . ' blocks, not ' . keys(%want) . "\n";
for my $addr (keys %want) {
	($is{$addr} // -1) == $want{$addr} or die "block at $addr of $want{$addr}\n";
}

# ---- how it came about ----

sub find {	# find(EVENT): number of the segment that it lies in
	my ($e) = @_;
	for my $i (0 .. $#segments) {
		my $s = $segments[$i];
		return $i if $s->{addr} <= $e->{addr} &&
			     $e->{addr} + $e->{size} <= $s->{addr} + $s->{size};
	}
	die "$e->{action} of $e->{size} bytes at $e->{addr}, which are in no segment\n";
}

sub take {	# take(EVENT): it was not there yet
	my ($e) = @_;
	my $i = find($e);
	my $s = $segments[$i];
	my @left = ({ %$s, size => $e->{addr} - $s->{addr} },
		    { %$s, addr => $e->{addr} + $e->{size},
		      size => $s->{addr} + $s->{size} - $e->{addr} - $e->{size} });
	$e->{action} eq 'segment_map' || !grep { $_->{size} } @left or
		die "$e->{action} of a part of a segment\n";
	splice @segments, $i, 1, grep { $_->{size} } @left;
	return;
}

sub give {	# give(EVENT): it was still there
	my ($e) = @_;
	my $new = { addr => $e->{addr}, size => $e->{size}, stream => $e->{stream} };
	my $i = 0;
	$i++ while $i < @segments && $segments[$i]{addr} < $e->{addr};
	splice @segments, $i, 0, $new;
	for my $k ($i, $i - 1) {
		next if $e->{action} eq 'segment_free' || $k < 0 || $k >= $#segments;
		my ($low, $high) = @segments[$k, $k + 1];
		$low->{addr} + $low->{size} <= $high->{addr} or die "segments overlap\n";
		next if $low->{addr} + $low->{size} < $high->{addr} ||
			$low->{stream} != $high->{stream};
		$low->{size} += $high->{size};
		splice @segments, $k + 1, 1;
	}
	return;
}

my %undo = (
	alloc => sub { delete $blocks{$_[0]{addr}} or die "alloc at $_[0]{addr}: not in use\n" },
	free_requested => sub { $blocks{$_[0]{addr}} or die "free at $_[0]{addr}: not in use\n" },
	free_completed => sub { find($_[0]); $blocks{$_[0]{addr}} = 1 },
	segment_alloc => \&take,
	segment_map => \&take,
	segment_free => \&give,
	segment_unmap => \&give,
	snapshot => sub { },
	oom => sub { },
);
my $events = $shot->{device_traces}[$device] // [];
for my $e (reverse @$events) {
	has('event', $e, qw(action size stream time_us frames),
	    $e->{action} eq 'oom' ? 'device_free' : 'addr');
	($undo{$e->{action}} // die "unknown action $e->{action}\n")->($e);
}
if ($ARGV[0] eq 'all' && (%blocks || @segments)) {
	die keys(%blocks) . ' blocks and ' . @segments . " segments at the beginning\n";
}
