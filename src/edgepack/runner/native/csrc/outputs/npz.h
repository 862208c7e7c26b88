// NumPy's npz: arrays by name in one file
// (https://numpy.org/doc/stable/reference/generated/numpy.savez.html).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "program/output.h"

namespace embed {

// A stored zip of npy files, held in memory until its end.
class Npz {
public:
    // `descr` is NumPy's name of the numbers, `shape` as Python writes it.
    template <class Number> void add(const char *name, const char *descr, const std::string &shape,
                                     const std::vector<Number> &numbers) {
        add(name, descr, shape, numbers.data(), numbers.size() * sizeof(Number));
    }
    void add(const char *name, const char *descr, const std::string &shape, const void *data, size_t size);
    // A code of 2 for more than the format holds.
    Error write(Output &output) const;

private:
    struct Member {
        std::string name, content;
    };
    std::vector<Member> members_;
};

}  // namespace embed
