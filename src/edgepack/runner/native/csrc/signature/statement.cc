#include "signature/statement.h"

#include <cstring>

#include "base/sha256.h"
#include "third_party/p256/p256.h"

namespace embed {

namespace {

constexpr const char *MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json",
                     *PAYLOAD_TYPE = "application/vnd.in-toto+json",
                     *STATEMENT = "https://in-toto.io/Statement/v1",
                     *PREDICATE = "https://model_signing/signature/v1.0";
// What is before the point in a key's DER (SubjectPublicKeyInfo): the curve's name, and that the point is not
// compressed.
constexpr std::string_view PREFIX(
    "\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00"
    "\x04",
    27);

// Base64 in its one form: standard letters, padded, no bit too many.
bool decode_base64(std::string_view text, std::string &out) {
    static const std::string_view letters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (text.size() % 4) return false;
    size_t padding = 0;
    while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') padding++;
    uint32_t held = 0;
    for (size_t at = 0; at < text.size(); at++) {
        bool blank = at >= text.size() - padding;
        size_t value = blank ? 0 : letters.find(text[at]);
        if (value == letters.npos) return false;
        held = held << 6 | uint32_t(value);
        if (at % 4 != 3) continue;
        size_t missing = at + 1 == text.size() ? padding : 0;
        if (held & ((1u << 8 * missing) - 1)) return false;
        for (size_t byte = 0; byte < 3 - missing; byte++) out += char(held >> (16 - 8 * byte));
        held = 0;
    }
    return true;
}

// The point of a public key in PEM.
bool read_key(const std::string &pem, std::string &point) {
    constexpr std::string_view begin = "-----BEGIN PUBLIC KEY-----", end = "-----END PUBLIC KEY-----";
    size_t from = pem.find(begin), to = pem.find(end);
    if (from == pem.npos || to == pem.npos || to < from + begin.size()) return false;
    std::string letters, der;
    for (char letter : pem.substr(from + begin.size(), to - from - begin.size()))
        if (!strchr("\r\n \t", letter)) letters += letter;
    if (!decode_base64(letters, der) || der.size() != PREFIX.size() + 64 ||
        der.compare(0, PREFIX.size(), PREFIX))
        return false;
    point = der.substr(PREFIX.size());
    return true;
}

// A positive number of DER, of 32 bytes at most and of no byte too many.
bool take_number(std::string_view &der, std::string &out) {
    if (der.size() < 3 || der[0] != 2) return false;
    size_t size = uint8_t(der[1]);
    if (size == 0 || size > 33 || der.size() < 2 + size) return false;
    std::string_view number = der.substr(2, size);
    der.remove_prefix(2 + size);
    bool led = number[0] == 0;
    if (number[0] & 0x80 || (led && (size == 1 || !(number[1] & 0x80)))) return false;
    number.remove_prefix(led);
    if (number.size() > 32) return false;
    out.append(32 - number.size(), '\0').append(number);
    return true;
}

// r and s of a signature in DER, 32 bytes each.
bool read_der(std::string_view der, std::string &out) {
    if (der.size() < 2 || der[0] != 0x30 || der[1] & 0x80 || size_t(der[1]) != der.size() - 2) return false;
    der.remove_prefix(2);
    return take_number(der, out) && take_number(der, out) && der.empty();
}

const uint8_t *bytes(const std::string &text) { return reinterpret_cast<const uint8_t *>(text.data()); }

std::string digest_of(const std::string &text) {
    Sha256 digest;
    digest.update(bytes(text), text.size());
    std::string hex = digest.finish(), raw;
    for (size_t at = 0; at < hex.size(); at += 2) raw += char(strtol(hex.substr(at, 2).c_str(), nullptr, 16));
    return raw;
}

bool says(const Json *found, const char *what) {
    return found && found->is(Json::STRING) && found->text == what;
}

// A JSON object, no name twice in it: of two, each reader may take another.
bool read_object(const std::string &content, Json &value) {
    std::string message;
    size_t position = 0;
    return parse_json(content, value, message, position) && value.is(Json::OBJECT) && !value.has_twins();
}

}  // namespace

Error not_signed(const std::string &why) {
    return fail(BUNDLE, "the bundle is not signed as it has to be: " + why,
                "do not use it: fetch it again from whom you trust");
}

Error open_signature(const std::string &content, const std::string &key, Json &statement) {
    std::string point, payload, der, signature;
    if (!read_key(key, point)) return fail(USAGE, "the key is no public key of the curve P-256 in PEM");
    Json file;
    if (!read_object(content, file) || !says(file.get("mediaType"), MEDIA_TYPE))
        return not_signed(std::string(SIGNATURE) + " is no signature that is known here");
    const Json *envelope = file.get("dsseEnvelope");
    const Json *written = envelope ? envelope->get("payload") : nullptr,
               *signatures = envelope ? envelope->get("signatures") : nullptr;
    if (!written || !signatures || !says(envelope->get("payloadType"), PAYLOAD_TYPE) ||
        signatures->items.size() != 1)
        return not_signed(std::string(SIGNATURE) + " holds no signed statement");
    const Json *made = signatures->items[0].get("sig");
    if (!made || !decode_base64(written->text, payload) || !decode_base64(made->text, der) ||
        !read_der(der, signature))
        return not_signed(std::string(SIGNATURE) + " is damaged");
    std::string type = PAYLOAD_TYPE;
    std::string digest = digest_of("DSSEv1 " + std::to_string(type.size()) + " " + type + " " +
                                   std::to_string(payload.size()) + " " + payload);
    if (p256_ecdsa_verify(bytes(signature), bytes(point), bytes(digest), digest.size()))
        return not_signed("its signature was made with another key, or of something else");
    if (!read_object(payload, statement) || !says(statement.get("_type"), STATEMENT) ||
        !says(statement.get("predicateType"), PREDICATE))
        return not_signed("what is signed is no statement of a model's files");
    return {};
}

Error check_manifest(const std::string &digest, const Json &statement) {
    const Json *resources = statement.at("predicate", "resources");
    size_t found = 0;
    if (resources)
        for (const Json &resource : resources->items)
            if (says(resource.get("name"), "manifest.json")) {
                found++;
                if (!says(resource.get("algorithm"), "sha256") ||
                    !says(resource.get("digest"), digest.c_str()))
                    return not_signed("manifest.json is not what was signed");
            }
    return found == 1 ? Error{} : not_signed("manifest.json is not what was signed");
}

}  // namespace embed
