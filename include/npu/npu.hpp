// SPDX-License-Identifier: MIT
//
// Guards for C++: they restore what they found when they go out of scope.
// error() tells whether the beginning worked; with exceptions enabled use
// npu::check() around calls.
#ifndef NPU_NPU_HPP
#define NPU_NPU_HPP

#include "npu/npu.h"

#if defined(__cpp_exceptions)
#include <system_error>
#endif

namespace npu {
inline namespace v0 {

#if defined(__cpp_exceptions)
/// Throws std::system_error with the thread's record for a negative result.
inline int check(int result)
{
	if (result < 0) {
		struct npu_error e = {};

		e.size = sizeof(e);
		npu_last_error(&e);
		throw std::system_error(-result, std::generic_category(),
					e.code == result ? e.text : npu_error_name(result));
	}
	return result;
}
#endif

/// What the guards have in common; neither copied nor moved.
class guard_base {
public:
	guard_base(const guard_base &) = delete;
	guard_base &operator=(const guard_base &) = delete;

	/// 0, or why the beginning failed; then nothing was changed.
	int error() const noexcept { return error_; }

protected:
	guard_base() noexcept : guard_(), error_(0) {}
	~guard_base() { npu_guard_cleanup(&guard_); }

	struct npu_guard guard_;
	int error_;
};

/// The current device, to the end of the scope.
class device_guard : public guard_base {
public:
	explicit device_guard(int device) noexcept { error_ = npu_guard_device(&guard_, device); }
};

/// The current stream and device, to the end of the scope.
class stream_guard : public guard_base {
public:
	explicit stream_guard(npu_stream stream) noexcept
	{
		error_ = npu_guard_stream(&guard_, stream);
	}
};

/// The secondary stream, which the stream before waits for at the end of the scope.
class secondary_guard : public guard_base {
public:
	secondary_guard() noexcept { error_ = npu_guard_secondary(&guard_); }
};

} // namespace v0
} // namespace npu

#endif /* NPU_NPU_HPP */
