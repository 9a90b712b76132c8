// SPDX-License-Identifier: MIT
/*
 * The catalogue of codes: what each means, where it usually comes from, and what
 * to do. Hints of errors, npu_error_explain(), "npuctl explain" and
 * Documentation/errors.rst are made from this one table. A code that the library
 * gives and that is not here fails scripts/check.sh.
 */
#include <stddef.h>

#include "hal/base.h"
#include "hal/error.h"

#define CODE(e, text, from, what) { .code = -(e), .name = #e, .meaning = text, .causes = from, \
				    .remedy = what }

static const struct hal_error_entry catalogue[] = {
	CODE(EPERM,
	     "The call is not allowed from this thread.",
	     "A guard ended by another thread than the one that began it.",
	     "End a guard in the thread that began it."),
	CODE(ENOENT,
	     "Something that was named does not exist: a file, an option, a rule, an entry.",
	     "A misspelt name; a path that is relative to another folder; a list that has come "
	     "to its end.",
	     "Check what the text names; npuctl options lists the options, npuctl explain the "
	     "codes."),
	CODE(ESRCH,
	     "The module has no kernel of that name.",
	     "A misspelt name; a kernel that is static or hidden in its module; the built-in "
	     "module asked for a kernel of a loaded one.",
	     "Check the name, and that the kernel is an exported symbol (nm -D MODULE)."),
	CODE(EIO,
	     "The device has a fault, or its answer cannot be relied upon; or a file cannot be "
	     "read or written.",
	     "A hardware fault: an uncorrectable memory error, a broken link, a core that hangs; "
	     "of a disk, if the text names a file.",
	     "See npu_device_get_health() for the cause; npu_device_restart() makes the device "
	     "usable again. A disk: see the log of the kernel."),
	CODE(ENOEXEC,
	     "The file or image is not what can be loaded here.",
	     "Not a shared object, one for another processor, or one without the kernels' ABI "
	     "symbol; a library that cannot be opened.",
	     "Build the module for this driver and machine (file MODULE tells what it is)."),
	CODE(EBADF,
	     "The number is not a handle of this type.",
	     "A handle that was never set, was overwritten, is of another type, or of another "
	     "copy of the library.",
	     "Pass the handle as the creating call gave it; the text says what was found."),
	CODE(ECHILD,
	     "The library was in use when the process forked, and this is the child.",
	     "A worker pool that forks after the parent has used a device.",
	     "Fork before the library is first used, or start the child by exec (spawn)."),
	CODE(EAGAIN,
	     "The stream is full, and was made not to block.",
	     "Tasks are submitted faster than the device runs them.",
	     "Wait for the stream or an event and submit again, or make the stream without "
	     "NPU_STREAM_NONBLOCK."),
	CODE(ENOMEM,
	     "There is no memory: of the device, or of the host.",
	     "More is allocated than the device has; the rest is in too small pieces; the host's "
	     "limit or that of the container.",
	     "Free memory or ask for less; npu_device_mem_info() tells what is free, npuctl info "
	     "for all devices."),
	CODE(EACCES,
	     "A file or device node may not be opened.",
	     "The user is not in the group that owns the node; the container was not given it; "
	     "the file's mode.",
	     "Check owner and mode of the path in the text (ls -l); add the user to its group, "
	     "or give the container the device."),
	CODE(EFAULT,
	     "A task or a call reached outside memory that it may use.",
	     "A kernel with a wrong address, size or index; memory freed while a task used it; "
	     "a host pointer where a device's is needed.",
	     "Check the address in the text; of a task, the arguments of the one that the record "
	     "names, which option launch_blocking reports at the call."),
	CODE(EBUSY,
	     "It is in use, so it cannot be destroyed, opened or changed now.",
	     "An option that is fixed while the library is initialised; a stream of a pool that "
	     "is destroyed by hand; a node that another process holds alone.",
	     "End the use that the text names first; options: set them before npu_init()."),
	CODE(EEXIST,
	     "It is there already.",
	     "Memory that is registered, or part of an allocation of the library; addresses that "
	     "two devices claim.",
	     "Register each range once, and unregister it before anew."),
	CODE(EXDEV,
	     "Things of different devices or contexts where they must be of the same.",
	     "A kernel of one context launched in a stream of another; an event recorded in a "
	     "stream of another device.",
	     "Take stream, kernel, event and memory of one context; a guard sets the device."),
	CODE(ENODEV,
	     "There is no such device, or it is lost.",
	     "An ordinal past the visible ones; no driver finds a device; a device that was "
	     "unplugged or given up because its work did not end.",
	     "npuctl info lists the devices and option visible_devices chooses them; a lost one "
	     "comes back by npu_device_reset()."),
	CODE(EINVAL,
	     "An argument is missing, out of range, or an unknown flag.",
	     "NULL where a pointer is needed; a size field that is not set; a time-out below -1; "
	     "a bad value of an option.",
	     "Correct the argument that the text names."),
	CODE(ENFILE,
	     "The machine has no file descriptor left.",
	     "A program that leaks descriptors; a low fs.file-max.",
	     "Close descriptors, or raise fs.file-max."),
	CODE(EMFILE,
	     "The process has no file descriptor left.",
	     "Descriptors from npu_event_fd() or npu_stream_fd() that are not closed; a low limit.",
	     "Close descriptors, or raise the limit (ulimit -n)."),
	CODE(ENOSPC,
	     "A fixed number of things is used up: streams, timed events, contexts, names, or "
	     "room in a buffer or on a disk. Memory: -ENOMEM.",
	     "Streams that are not destroyed; many processes on one device; a limit of the part; "
	     "a disk or quota that is full.",
	     "Destroy what is not needed; share streams by npu_stream_pool_get(); the text tells "
	     "the limit, and who uses it, or the file."),
	CODE(ERANGE,
	     "A number is outside what is allowed.",
	     "A value of an option below its minimum or above its maximum.",
	     "Take a value within the limits in the text; npuctl options and the documentation "
	     "of options list them."),
	CODE(EDEADLK,
	     "A call that waits, from inside a callback, would wait for itself.",
	     "A wait, a destroy or a blocking copy in a function given to npu_stream_callback(); "
	     "an observer that would wait for the restart that called it.",
	     "Wait in another thread; inside a callback poll with a time-out of 0."),
	CODE(ENOSYS,
	     "The driver lacks a function that its device's capabilities ask for.",
	     "A driver that was built for another version of the library.",
	     "Build driver and library from the same sources."),
	CODE(EPROTO,
	     "The two sides speak different versions.",
	     "A device, driver or module that was made for another version of the library.",
	     "Bring library, driver and modules to the same version; the text names the two."),
	CODE(EOPNOTSUPP,
	     "The device or driver cannot do this.",
	     "A capability that the part lacks; the driver null, which can do nothing.",
	     "Look at the capabilities first (npu_device_get_info(), npuctl info DEVICE)."),
	CODE(ESHUTDOWN,
	     "The library is being finalized, the process is exiting, or the device is stopped.",
	     "Calls from threads that outlive main(); work for a device between "
	     "npu_device_stop() and npu_device_restart().",
	     "End the threads before npu_finalize(); restart a stopped device by "
	     "npu_device_restart()."),
	CODE(ENOTCONN,
	     "The library is not initialised, and does not do so by itself.",
	     "Option lazy_init is off, and npu_init() was not called, or failed.",
	     "Call npu_init() first, or set lazy_init to 1."),
	CODE(ETIMEDOUT,
	     "The time-out passed; what was queued stays queued.",
	     "Work that takes longer, hangs, or waits for an event that nobody records; a full "
	     "stream whose tasks do not end.",
	     "Wait again or with a longer time-out; the text names the task that the stream is "
	     "at; npu_stream_abort() discards what is queued."),
	CODE(EINPROGRESS,
	     "Not done yet: the answer of a query, no failure.",
	     "The work before that point has not completed.",
	     "Ask again later, or wait."),
	CODE(ESTALE,
	     "The handle's object was destroyed, or is of a generation before a restart.",
	     "A handle used after its destroy; streams kept over npu_device_reset(), "
	     "npu_device_restart() or npu_finalize().",
	     "Make the object anew, and forget the old handle."),
	CODE(EUCLEAN,
	     "The file that processes share an instance by cannot be trusted.",
	     "Option simnpu_instance: a file of that name that others can read or write, or of "
	     "another version of the library.",
	     "Remove the file that the log names while no process uses the instance, or take "
	     "another name."),
	CODE(ECANCELED,
	     "What was waited for was discarded.",
	     "npu_stream_abort() or npu_device_stop() while a thread waited; a task behind a "
	     "failed one in a stream of fail mode stop.",
	     "Submit the work again if it is still wanted; of fail mode stop the origin names "
	     "the first failure."),
	CODE(ENOLINK,
	     "The link to the device is broken. The cause of a fault, not the answer of a call.",
	     "A hardware fault: cable, slot, or the other end.",
	     "npu_device_restart(); if it comes back, see to the hardware."),
	CODE(ETIME,
	     "A task does not end: a core hangs. The failure of that task, and the cause of the "
	     "device's fault; -ETIMEDOUT is that of a wait.",
	     "A kernel that loops for ever, or waits for what nobody does.",
	     "npu_device_restart() ends it; look at the kernel of the task that the record names."),
	CODE(EREMOTEIO,
	     "The device does not answer: its heartbeat stopped. The cause of a fault, not the "
	     "answer of a call.",
	     "The device's own software hangs, or has crashed.",
	     "npu_device_restart(); if it happens again, see to the firmware."),
	CODE(EOWNERDEAD,
	     "The process that made the key has ended.",
	     "npu_ipc_import() of a key of a process that has crashed, was killed, or was done.",
	     "Start it again, and get a new key; memory that was imported before stays."),
	CODE(ENODATA,
	     "The file ends before what was to be read.",
	     "A wrong offset or size; a file that was truncated meanwhile, or not written whole.",
	     "Compare with npu_file_size(); the log names the file and the byte."),
	CODE(EBADMSG,
	     "The file is not a container of weights, or it is damaged.",
	     "Another kind of file; a copy that was cut short; a disk that returns other bytes "
	     "than were written.",
	     "Check it (npuctl weights check FILE), and make or copy it anew."),
	CODE(EHWPOISON,
	     "The memory was hit by an uncorrectable error: what was in it is lost.",
	     "A hardware fault of the device's memory.",
	     "npu_device_restart() first, if the device has a fault; then write the allocation "
	     "anew as a whole, or free it: npu_pointer_get_info() tells which are unsafe."),
};

/**
 * hal_error_explain() - what the catalogue says of a code
 * @code: positive or negative errno
 *
 * Return: the entry, or NULL.
 */
const struct hal_error_entry *hal_error_explain(int code)
{
	int want = code > 0 ? -code : code;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(catalogue); i++)
		if (catalogue[i].code == want)
			return &catalogue[i];
	return NULL;
}

/**
 * hal_error_at() - the catalogue, in order
 * @i: which entry, from 0
 *
 * Return: the entry, or NULL: there are no more.
 */
const struct hal_error_entry *hal_error_at(unsigned int i)
{
	return i < ARRAY_SIZE(catalogue) ? &catalogue[i] : NULL;
}
