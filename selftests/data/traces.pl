#!/usr/bin/perl
# SPDX-License-Identifier: MIT
#
# Makes the traces of allocations in this folder: "perl traces.pl train > train.trace", and server
# and mixed likewise. The same each time; a test compares them.
#
# A trace is words:
#	+N	allocate N bytes for stream 0, which get the lowest number that is free
#	+N@S	the same for stream S
#	-I	free what has the number I
#	rI@S	stream S uses it, too
#	hS	stream S does not go on
#	gS	it does, and comes to its end
#	[ ]	what is between them is done again and again
# Lines that begin with # are for people. What is alive at the end is freed by whoever plays it.
use strict;
use warnings;
use integer;

my ($seed, @words, @taken) = (1);

# ---- words ----

sub dice { $seed = ($seed * 1103515245 + 12345) & 0x7fffffff; return ($seed >> 8) % $_[0] }
sub word { push @words, @_; return }

sub get {	# get(BYTES, STREAM): its number
	my ($size, $stream) = @_;
	my $i = 0;
	$i++ while $taken[$i];
	$taken[$i] = 1;
	word("+$size" . ($stream ? "\@$stream" : ''));
	return $i;
}

sub put {	# put(NUMBERS)
	for my $i (@_) {
		$taken[$i] = 0;
		word("-$i");
	}
	return;
}

sub bytes { my $n = 1; $n *= $_ for @_; return $n }	# bytes(FACTORS)

# ---- a training step: a transformer, mixed precision, Adam, gradients summed over devices ----

my ($DIM, $LAYERS, $HEADS, $VOCAB, $HALF, $FULL) = (384, 8, 6, 8192, 2, 4);

sub parameters {	# elements of all tensors: what embeds, the layers, what comes out
	my @layer = ((bytes($DIM, $DIM)) x 4, ($DIM) x 4, bytes($DIM, 4, $DIM), 4 * $DIM,
		     bytes(4, $DIM, $DIM), $DIM, ($DIM) x 4);
	return (bytes($VOCAB, $DIM), (@layer) x $LAYERS, $DIM, $DIM);
}

sub forward {	# forward(BATCH, LENGTH): numbers of what the way back needs, a list for each layer
	my ($batch, $len) = @_;
	my $act = bytes($batch, $len, $DIM, $HALF);
	my $scores = bytes($batch, $HEADS, $len, $len, $HALF);
	my $x = get($act);
	my @saved;

	for (1 .. $LAYERS) {
		my @keep = ($x, get($act), map { get(bytes($batch, $len, $FULL)) } 1 .. 2);
		my @qkv = map { get($act) } 1 .. 3;
		my $raw = get($scores);
		my $soft = get($scores);
		put($raw);
		my $drop = get($scores / 2);
		my $ctx = get($act);
		my $out = get($act);
		my $sum = get($act);
		put($out);
		push @keep, @qkv, $soft, $drop, $ctx, $sum;
		my $norm = get($act);
		my $up = get(4 * $act);
		my $gelu = get(4 * $act);
		my $down = get($act);
		$x = get($act);
		put($down);
		push @saved, [@keep, $norm, $up, $gelu];
	}
	push @saved, [$x];
	return @saved;
}

# Gradients are sent in buckets: stream 1 uses a bucket while the way back goes on.
sub send_bucket {	# send_bucket(BUCKET, NUMBERS)
	my ($bucket, @grads) = @_;
	my $flat = get($bucket->{bytes});
	word('h1', "r$flat\@1");
	$bucket->{flat} = $flat;
	$bucket->{bytes} = 0;
	put(@grads);
	return;
}

sub bucket_done {
	my ($bucket) = @_;
	return unless defined $bucket->{flat};
	put($bucket->{flat});
	word('g1');
	delete $bucket->{flat};
	return;
}

sub backward {	# backward(BATCH, LENGTH, SAVED): numbers of the gradients
	my ($batch, $len, @saved) = @_;
	my $act = bytes($batch, $len, $DIM, $HALF);
	my $scores = bytes($batch, $HEADS, $len, $len, $HALF);
	my @params = parameters();
	my ($x) = @{pop @saved};
	my $logits = get(bytes($batch, $len, $VOCAB, $HALF));
	my $soft = get(bytes($batch, $len, $VOCAB, $FULL));
	my $loss = get(4);
	my $back = get(bytes($batch, $len, $VOCAB, $HALF));
	put($soft, $logits, $loss);
	my $dx = get($act);
	my %bucket = (bytes => 0);
	my (@grads, @open);

	push @open, get(bytes($VOCAB, $DIM, $HALF));
	$bucket{bytes} = bytes($VOCAB, $DIM, $HALF);
	put($back, $x);
	while (my $keep = pop @saved) {
		my $dup = get(4 * $act);
		my $dgelu = get(4 * $act);
		put($dup);
		my $dnorm = get($act);
		my $dscores = get($scores);
		my $draw = get($scores);
		put($dscores, $dgelu);
		my @dqkv = map { get($act) } 1 .. 3;
		put($draw);
		for my $n (@params[1 .. 16]) {
			push @open, get($n * $HALF);
			$bucket{bytes} += $n * $HALF;
		}
		my $next = get($act);
		put(@dqkv, $dnorm, $dx, @$keep);
		$dx = $next;
		if ($bucket{bytes} > 5 << 20) {
			bucket_done(\%bucket);
			push @grads, get($bucket{bytes});
			send_bucket(\%bucket, @open);
			@open = ();
		}
	}
	bucket_done(\%bucket);
	put($dx, @open);
	return @grads;
}

sub step {	# step(BATCH, LENGTH, STATE): STATE is what Adam remembers, made in the first step
	my ($batch, $len, $state) = @_;
	my @input = (get(bytes($batch, $len, 8)), get(bytes($batch, $len, 8)));
	my @grads = backward($batch, $len, forward($batch, $len));
	my @params = parameters();

	push @$state, map { get($_ * $FULL) } @params, @params unless @$state;
	for my $part (0 .. 3) {
		my @some = grep { $_ % 4 == $part } 0 .. $#params;
		my @tmp = map { get($params[$_] * $FULL) } @some;
		my @more = map { get($params[$_] * $FULL) } @some;
		put(@tmp, @more);
	}
	put(@grads, @input);
	return;
}

sub train {
	my @state;

	for my $size ($HALF, $FULL) {
		get($_ * $size) for parameters();
	}
	step(2, 384, \@state);
	word('[');
	step(2, $_, \@state) for 512, 448, 320;
	word(']');
	return;
}

# ---- a server of a language model: contexts come, grow and go ----

my ($KV, $DEEP, $CHUNK) = (1024, 6, 128);

sub prefill {	# prefill(TOKENS): what computing a prompt takes for a while
	my ($n) = @_;
	for (1 .. $DEEP) {
		my $x = get(bytes($n, $KV, $HALF));
		my @qkv = map { get(bytes($n, $KV, $HALF)) } 1 .. 3;
		my $scores = get(bytes($n, $n, 8, $HALF));
		my $ctx = get(bytes($n, $KV, $HALF));
		put($scores, @qkv);
		my $up = get(bytes($n, 4 * $KV, $HALF));
		put($ctx, $up, $x);
	}
	return;
}

sub decode {	# decode(SEQUENCES): one token for each
	my ($n) = @_;
	my $x = get(bytes($n, $KV, $HALF));
	for (1 .. 2) {
		my $qkv = get(bytes($n, 3 * $KV, $HALF));
		my $up = get(bytes($n, 4 * $KV, $HALF));
		put($qkv, $up);
	}
	my $logits = get(bytes($n, 32000, $FULL));
	put($logits, $x);
	return;
}

sub context {	# context(TOKENS, NUMBERS): the cache of a sequence, in place of what it had before
	my ($n, @old) = @_;
	return map {
		my $new = get(bytes($n, $KV, $HALF));
		put($old[$_]) if @old;
		$new;
	} 0 .. 2 * $DEEP - 1;
}

sub arrive {	# arrive(): a request: its context, tokens in it, how many it will have in the end
	my $n = 64 + dice(900);
	prefill($n);
	return { kv => [context($n)], now => $n, end => $n + 128 + dice(1200) };
}

sub server {
	my @live;
	my $left = 40;

	get(bytes($_, $KV, $HALF)) for 32000, (($KV) x 4, 4 * $KV, 4 * $KV) x $DEEP;
	word('[');
	while ($left || @live) {
		if ($left && @live < 8 && dice(3)) {
			push @live, arrive();
			$left--;
		}
		decode(scalar @live) if @live;
		for my $r (@live) {
			next if dice(2);
			$r->{now} += $CHUNK;
			$r->{kv} = [context($r->{now}, @{$r->{kv}})];
		}
		put(@{$_->{kv}}) for grep { $_->{now} >= $_->{end} } @live;
		@live = grep { $_->{now} < $_->{end} } @live;
	}
	word(']');
	return;
}

# ---- several models at once, each with its stream ----

# Each request is a list of words in which #K stands for the K-th block of the request.
sub image {	# image(BATCH): a network of convolutions
	my ($batch) = @_;
	my ($edge, $width, $in, $k, @w) = (112, 32, 0, 1);
	push @w, '+' . bytes($batch, 3, 224, 224, $HALF);
	for (1 .. 5) {
		for my $at (1 .. 3) {
			my $out = bytes($batch, $width, $edge, $edge, $HALF);
			push @w, "+$out", '+' . ($out / 2 + 65536), '-#' . ($k + 1), "-#$in";
			$in = $k;
			$k += 2;
		}
		$edge /= 2;
		$width *= 2;
	}
	return (@w, "-#$in");
}

sub text {	# text(BATCH, LENGTH): an encoder
	my ($batch, $len) = @_;
	my ($act, $k, @w) = (bytes($batch, $len, 512, $HALF), 1);
	push @w, "+$act";
	for (1 .. 6) {
		my $scores = bytes($batch, 8, $len, $len, $HALF);
		push @w, ("+$act") x 3, "+$scores", "+$act", map { "-#$_" } $k .. $k + 3;
		push @w, '+' . 4 * $act, "+$act", '-#' . ($k + 5), '-#' . ($k + 4), '-#' . ($k - 1);
		$k += 7;
	}
	return (@w, '-#' . ($k - 1));
}

sub speech {	# speech(FRAMES): a decoder whose state grows
	my ($n) = @_;
	my (@w, $last);
	my $k = 0;
	push @w, '+' . bytes($n, 80, $FULL);
	for my $i (1 .. 12) {
		push @w, '+' . bytes($n / 12 * $i + 16, 2048, $HALF);
		push @w, '+' . bytes($n, 256 + 64 * $i, $HALF);
		push @w, '-#' . $last if defined $last;
		push @w, '-#' . ($k + 2);
		$last = $k + 1;
		$k += 2;
	}
	return (@w, "-#$last", '-#0');
}

my @models = (
	sub { image(1 + dice(40)) },
	sub { text(1 + dice(16), 32 + dice(480)) },
	sub { speech(200 + dice(2800)) },
);

sub some_words {	# some_words(STREAM, REQUEST): a few of a request's words
	my ($stream, $r) = @_;
	for (0 .. dice(8)) {
		my $w = shift @{$r->{words}} // return;
		if ($w =~ /^\+(\d+)/) {
			push @{$r->{block}}, get($1, $stream);
		} else {
			put($r->{block}[substr($w, 2)]);
		}
	}
	return;
}

# The answer of a model is read by the first one's stream, which may be busy.
sub answer {	# answer(STREAM)
	my ($stream) = @_;
	my $out = get(4096 + dice(60000), $stream);
	word('h3', "r$out\@3");
	put($out);
	word('g3');
	return;
}

sub weights {	# weights(STREAM): of a model, which may be loaded again while the others work
	my ($stream) = @_;
	my @size = ([(2359296, 589824, 65536) x 6], [(1048576, 1048576, 2097152) x 6, 16 << 20],
		    [(8388608, 2097152, 4096) x 3]);
	return [map { get($_, $stream) } @{$size[$stream]}];
}

sub mixed {
	my @loaded = map { weights($_) } 0 .. 2;
	my @now = map { { words => [] } } 0 .. 2;
	my $left = 150;

	word('[');
	while ($left || grep { @{$_->{words}} } @now) {
		my $s = dice(3);
		if (!@{$now[$s]{words}}) {
			next if !$left;
			$left--;
			answer($s);
			$now[$s] = { words => [$models[$s]->()], block => [] };
			if (!dice(25)) {
				put(@{$loaded[$s]});
				$loaded[$s] = weights($s);
			}
		}
		some_words($s, $now[$s]);
	}
	word(']');
	return;
}

# ---- out with it ----

my %trace = (train => \&train, server => \&server, mixed => \&mixed);
my $make = @ARGV == 1 && $trace{$ARGV[0]} or die "usage: traces.pl train|server|mixed\n";
my $line = '';

$make->();
print "# SPDX-License-Identifier: MIT\n";
print "# Made by traces.pl, which says what the words are.\n";
for my $w (@words) {
	if (length($line) + length($w) > 98) {
		print "$line\n";
		$line = '';
	}
	$line .= ($line eq '' ? '' : ' ') . $w;
}
print "$line\n";
