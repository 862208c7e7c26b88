// Package edgepack turns texts into vectors with the model of a bundle that edgepack made.
//
// It loads the bundle's own library, lib/libembed.so (edgepack bundle --set library=true), and needs cgo and nothing else.
package edgepack

/*
#cgo LDFLAGS: -ldl
#include "opened.h"

static int call_open(Opened *f, const char *folder, const embed_options *options, embed_bundle **bundle, char *error, size_t size) {
	return f->open(folder, options, bundle, error, size);
}
static size_t call_dimension(Opened *f, const embed_bundle *bundle) { return f->dimension(bundle); }
static int call_texts(Opened *f, const embed_bundle *bundle, const char *const *texts, const size_t *lengths, size_t count, float *vectors, char *error, size_t size) {
	return f->texts(bundle, texts, lengths, count, vectors, error, size);
}
static int call_tokens(Opened *f, const embed_bundle *bundle, const char *text, size_t length, uint32_t *ids, size_t room, size_t *count, char *error, size_t size) {
	return f->tokens(bundle, text, &length, ids, room, count, error, size);
}
static int call_similarity(Opened *f, const embed_bundle *bundle, const char *const *texts, const size_t *lengths, double *similarity, char *error, size_t size) {
	return f->similarity(bundle, texts, lengths, similarity, error, size);
}
static void call_close(Opened *f, embed_bundle *bundle) { f->close(bundle); }
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"unsafe"
)

// Options of Open. All zero is the bundle's own way.
type Options struct {
	// BatchSize is how many texts are computed together.
	BatchSize int
	// MaxLength is how many tokens count of a text, special ones included.
	MaxLength int
	// Dimension cuts vectors, for models that were trained for it.
	Dimension int
	// Threads of the processor.
	Threads int
	// Prefix is "query" or "passage": what the model wants before such a text.
	Prefix string
	// PublicKey is ECDSA P-256 in PEM: the bundle has to be signed with it. Nil is none; an empty one is refused.
	PublicKey []byte
	// Library is another file than lib/libembed.so in the bundle's folder, for a bundle that is one file.
	Library string
}

// Error is what the library refused.
type Error struct {
	// Code is as the program's exit codes: 2 a wish that the model cannot fulfil, 4 a damaged bundle, 5 a model that does not run.
	Code    int
	Message string
}

func (e *Error) Error() string { return e.Message }

// ErrClosed is what a closed bundle answers.
var ErrClosed = errors.New("edgepack: the bundle is closed")

// Bundle is an open bundle. Any number of goroutines may use it at once.
type Bundle struct {
	mutex     sync.RWMutex
	functions *C.Opened
	bundle    *C.embed_bundle
	dimension int
}

const messageSize = 1024

// Open opens a bundle's folder; options may be nil. The library stays loaded when the bundle is closed.
func Open(folder string, options *Options) (*Bundle, error) {
	if options == nil {
		options = &Options{}
	}
	library := options.Library
	if library == "" {
		library = filepath.Join(folder, "lib", "libembed.so")
	}
	for _, number := range []int{options.BatchSize, options.MaxLength, options.Dimension, options.Threads} {
		if number < 0 || number > math.MaxInt32 {
			return nil, &Error{Code: 2, Message: fmt.Sprintf("%d is no number of anything", number)}
		}
	}
	// dlerror and its text belong to a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	made := &Bundle{functions: (*C.Opened)(C.calloc(1, C.sizeof_Opened))}
	if failure := C.load(cString(library), made.functions); failure != nil {
		C.free(unsafe.Pointer(made.functions))
		return nil, &Error{Code: 4, Message: C.GoString(failure)}
	}
	asked := C.embed_options{
		batch_size: C.size_t(options.BatchSize), max_length: C.size_t(options.MaxLength),
		dimension: C.size_t(options.Dimension), threads: C.int(options.Threads),
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	if options.Prefix != "" {
		asked.prefix = cString(options.Prefix)
		pins.Pin(asked.prefix)
	}
	if options.PublicKey != nil {
		asked.public_key = cString(string(options.PublicKey))
		pins.Pin(asked.public_key)
	}
	var message [messageSize]C.char
	var bundle *C.embed_bundle
	if code := C.call_open(made.functions, cString(folder), &asked, &bundle, &message[0], messageSize); code != 0 {
		C.free(unsafe.Pointer(made.functions))
		return nil, said(code, &message)
	}
	made.bundle, made.dimension = bundle, int(C.call_dimension(made.functions, bundle))
	return made, nil
}

// Dimension is how many numbers a vector has.
func (b *Bundle) Dimension() int { return b.dimension }

// Embed returns a vector for each text, in their order.
func (b *Bundle) Embed(texts []string) ([][]float32, error) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	if b.bundle == nil {
		return nil, ErrClosed
	}
	rows := make([][]float32, len(texts))
	if len(texts) == 0 {
		return rows, nil
	}
	if len(texts) > math.MaxInt/4/b.dimension {
		return nil, &Error{2, fmt.Sprintf("%d texts in one call are too many", len(texts))}
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	starts, lengths := pinned(&pins, texts)
	numbers := make([]float32, len(texts)*b.dimension)
	var message [messageSize]C.char
	code := C.call_texts(b.functions, b.bundle, &starts[0], &lengths[0], C.size_t(len(texts)), (*C.float)(&numbers[0]), &message[0], messageSize)
	if code != 0 {
		return nil, said(code, &message)
	}
	for row := range rows {
		rows[row] = numbers[row*b.dimension : (row+1)*b.dimension : (row+1)*b.dimension]
	}
	return rows, nil
}

// Tokens returns the ids of a text's tokens, as the model takes them.
func (b *Bundle) Tokens(text string) ([]uint32, error) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	if b.bundle == nil {
		return nil, ErrClosed
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	starts, lengths := pinned(&pins, []string{text})
	ids := make([]uint32, 512)
	for {
		var message [messageSize]C.char
		var count C.size_t
		code := C.call_tokens(b.functions, b.bundle, starts[0], lengths[0], (*C.uint32_t)(&ids[0]), C.size_t(len(ids)), &count, &message[0], messageSize)
		if code != 0 {
			return nil, said(code, &message)
		}
		if int(count) <= len(ids) {
			return ids[:count], nil
		}
		ids = make([]uint32, count)
	}
}

// Similarity is the cosine of the angle between the vectors of two texts.
func (b *Bundle) Similarity(first, second string) (float64, error) {
	b.mutex.RLock()
	defer b.mutex.RUnlock()
	if b.bundle == nil {
		return 0, ErrClosed
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	starts, lengths := pinned(&pins, []string{first, second})
	var message [messageSize]C.char
	var similarity C.double
	if code := C.call_similarity(b.functions, b.bundle, &starts[0], &lengths[0], &similarity, &message[0], messageSize); code != 0 {
		return 0, said(code, &message)
	}
	return float64(similarity), nil
}

// Close waits for those who use the bundle, and closes it. A second time does nothing.
func (b *Bundle) Close() error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.bundle != nil {
		C.call_close(b.functions, b.bundle)
		C.free(unsafe.Pointer(b.functions))
		b.bundle, b.functions = nil, nil
	}
	return nil
}

// The text with a NUL, in Go's memory.
func cString(text string) *C.char {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(append([]byte(text), 0))))
}

func pinned(pins *runtime.Pinner, texts []string) ([]*C.char, []C.size_t) {
	starts, lengths := make([]*C.char, len(texts)), make([]C.size_t, len(texts))
	for at, text := range texts {
		lengths[at] = C.size_t(len(text))
		if text != "" {
			starts[at] = (*C.char)(unsafe.Pointer(unsafe.StringData(text)))
			pins.Pin(starts[at])
		}
	}
	return starts, lengths
}

func said(code C.int, message *[messageSize]C.char) error {
	return &Error{Code: int(code), Message: C.GoString(&message[0])}
}
