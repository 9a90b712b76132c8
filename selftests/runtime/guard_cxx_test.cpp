// SPDX-License-Identifier: MIT
//
// The guards of npu/npu.hpp, in a C++ program that links with the library as
// users do.
#include <npu/npu.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

static int failed, tests;

static void check(bool good, const char *what)
{
	std::printf("%sok %d - %s\n", good ? "" : "not ", ++tests, what);
	failed += !good;
}

static int device()
{
	int d = -9;

	npu_device_get(&d);
	return d;
}

static npu_stream stream()
{
	npu_stream s = { 0 };

	npu_stream_current(NPU_DEVICE_CURRENT, &s);
	return s;
}

static int leaves_by_exception()
{
	try {
		npu::device_guard g(1);

		if (device() == 1)
			throw 7;
	} catch (int x) {
		return x;
	}
	return 0;
}

static int code_of(int result)
{
	try {
		npu::check(result);
	} catch (const std::system_error &e) {
		return e.code().value();
	}
	return 0;
}

int main()
{
	npu_stream s = { 0 }, home;

	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	setenv("NPU_LAZY_INIT", "1", 1);
	static_assert(!std::is_copy_constructible<npu::device_guard>::value, "");
	static_assert(!std::is_move_constructible<npu::stream_guard>::value, "");

	check(device() == 0, "device 0 at first");
	{
		npu::device_guard g(1);

		check(!g.error() && device() == 1, "device guard");
	}
	check(device() == 0, "device is back");
	check(leaves_by_exception() == 7 && device() == 0, "device is back after an exception");
	{
		npu::device_guard g(5);

		check(g.error() == -ENODEV && device() == 0, "a device that does not exist");
	}
	check(device() == 0, "nothing to bring back");

	home = stream();
	check(!npu_stream_pool_get(1, 4, &s), "a stream of device 1");
	{
		npu::stream_guard g(s);

		check(!g.error() && stream().h == s.h && device() == 1, "stream guard");
		{
			npu::device_guard d(0);

			check(device() == 0 && stream().h == home.h, "nested");
		}
		check(stream().h == s.h, "inner one has ended");
	}
	check(stream().h == home.h && device() == 0, "stream is back");
	{
		npu::secondary_guard g;

		check(!g.error() && stream().h != home.h, "secondary guard");
	}
	check(stream().h == home.h, "secondary stream is left");

	check(npu::check(0) == 0, "check() of a success");
	check(code_of(npu_device_set(9)) == ENODEV, "check() of a failure");
	check(!npu_finalize(1000), "finalize");
	std::printf("1..%d\n", tests);
	return failed != 0;
}
