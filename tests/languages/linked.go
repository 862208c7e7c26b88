// Has a bundle inside: writes the vectors of texts.
package main

/*
#cgo LDFLAGS: -lembed
#include <stdlib.h>
#include "embed.h"
*/
import "C"

import (
	"bytes"
	"encoding/binary"
	"os"
	"sync"
	"unsafe"
)

func embed(bundle *C.embed_bundle, texts []string) []byte {
	starts := make([]*C.char, len(texts))
	for at, text := range texts {
		starts[at] = C.CString(text)
		defer C.free(unsafe.Pointer(starts[at]))
	}
	vectors := make([]float32, len(texts)*int(C.embed_dimension(bundle)))
	var message [256]C.char
	if C.embed_texts(bundle, &starts[0], nil, C.size_t(len(texts)), (*C.float)(&vectors[0]), &message[0], 256) != 0 {
		panic(C.GoString(&message[0]))
	}
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, vectors)
	return out.Bytes()
}

func main() {
	var bundle *C.embed_bundle
	var message [256]C.char
	if C.embed_open(nil, nil, &bundle, &message[0], 256) != 0 {
		panic(C.GoString(&message[0]))
	}
	defer C.embed_close(bundle)
	vectors := embed(bundle, os.Args[1:])
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			if !bytes.Equal(embed(bundle, os.Args[1:]), vectors) {
				panic("other bits")
			}
		}()
	}
	group.Wait()
	os.Stdout.Write(vectors)
}
