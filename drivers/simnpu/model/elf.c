// SPDX-License-Identifier: MIT
/*
 * Whether a file can be handed to the dynamic loader. The loader maps what the
 * program headers say without looking at the file's length, and touches it: one
 * that was cut short would end the process by SIGBUS.
 */
#include <elf.h>
#include <link.h>
#include <string.h>

#include "drivers/simnpu/model/model.h"

/**
 * model_elf_check() - look at the head of an ELF file
 * @head: its first bytes
 * @size: how many of them there are; program headers behind them are refused
 * @length: bytes of the whole file
 *
 * Return: 0, -ENOEXEC.
 */
int model_elf_check(const void *head, size_t size, uint64_t length)
{
	const char *bytes = head;
	ElfW(Ehdr) eh;
	ElfW(Phdr) ph;
	uint32_t i;

	if (size < sizeof(eh))
		return -ENOEXEC;
	memcpy(&eh, bytes, sizeof(eh));
	if (memcmp(eh.e_ident, ELFMAG, SELFMAG) || eh.e_type != ET_DYN ||
	    eh.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
	    eh.e_phentsize != sizeof(ph) || eh.e_phoff > size ||
	    eh.e_phnum > (size - eh.e_phoff) / sizeof(ph))
		return -ENOEXEC;
	for (i = 0; i < eh.e_phnum; i++) {
		memcpy(&ph, bytes + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_filesz > length || ph.p_offset > length - ph.p_filesz)
			return -ENOEXEC;
	}
	return 0;
}
