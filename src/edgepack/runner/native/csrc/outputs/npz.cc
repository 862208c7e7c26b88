#include "outputs/npz.h"

namespace embed {

namespace {

uint32_t crc32(const std::string &bytes) {
    uint32_t sum = UINT32_MAX;
    for (char byte : bytes) {
        sum ^= uint8_t(byte);
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320 : 0);
    }
    return ~sum;
}

void append(std::string &out, uint32_t number, int bytes) {
    for (int byte = 0; byte < bytes; byte++) out += char(number >> 8 * byte & 255);
}

// Version, flags, method 0 (stored), 1980-01-01, sizes: what a file's two headers have in common.
void append_facts(std::string &out, const std::string &name, const std::string &content) {
    append(out, 20, 2);
    append(out, 0, 4);
    append(out, 0x00210000, 4);
    append(out, crc32(content), 4);
    append(out, uint32_t(content.size()), 4);
    append(out, uint32_t(content.size()), 4);
    append(out, uint32_t(name.size()), 2);
    append(out, 0, 2);
}

}  // namespace

void Npz::add(const char *name, const char *descr, const std::string &shape, const void *data, size_t size) {
    std::string header =
        std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(118 - 1, ' ');
    std::string content = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n";
    content.append(static_cast<const char *>(data), size);
    members_.push_back({std::string(name) + ".npy", std::move(content)});
}

Error Npz::write(Output &output) const {
    std::string directory;
    uint64_t at = 0;
    for (const Member &member : members_) {
        if (at + member.content.size() > UINT32_MAX - (1 << 16))
            return fail(USAGE, "npz holds 4 GB at most", "use --out jsonl, or fewer texts at once");
        std::string header("PK\x03\x04");
        append_facts(header, member.name, member.content);
        header += member.name;
        directory += "PK\x01\x02";
        append(directory, 20, 2);
        append_facts(directory, member.name, member.content);
        directory.append(10, '\0');
        append(directory, uint32_t(at), 4);
        directory += member.name;
        output.write(header);
        output.write(member.content);
        at += header.size() + member.content.size();
    }
    std::string end("PK\x05\x06");
    append(end, 0, 4);
    for (int twice = 0; twice < 2; twice++) append(end, uint32_t(members_.size()), 2);
    append(end, uint32_t(directory.size()), 4);
    append(end, uint32_t(at), 4);
    append(end, 0, 2);
    output.write(directory + end);
    return output.flush();
}

}  // namespace embed
