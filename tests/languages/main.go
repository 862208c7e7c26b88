// Says what the binding of Go gives: as tests/e2e/test_apps.py asks of every language.
package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	edgepack "edgepack.local/small-bert"
)

func bits(rows [][]float32) string {
	var out []byte
	for _, row := range rows {
		out, _ = binary.Append(out, binary.LittleEndian, row)
	}
	return hex.EncodeToString(out)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	folder, texts := os.Args[1], os.Args[2:]
	bundle := must(edgepack.Open(folder, nil))
	vectors := bits(must(bundle.Embed(texts)))
	fmt.Println(bundle.Dimension())
	fmt.Println(vectors)
	fmt.Println(strings.Trim(strings.ReplaceAll(fmt.Sprint(must(bundle.Tokens(texts[0]))), " ", ","), "[]"))
	fmt.Printf("%.6f\n", must(bundle.Similarity(texts[0], texts[1])))
	var group sync.WaitGroup
	same := make([]bool, 50)
	for at := range same {
		group.Add(1)
		go func() {
			defer group.Done()
			rows, err := bundle.Embed(texts)
			same[at] = err == nil && bits(rows) == vectors
		}()
	}
	group.Wait()
	fmt.Println(!strings.Contains(fmt.Sprint(same), "false"))
	var refused *edgepack.Error
	_, err := edgepack.Open(folder, &edgepack.Options{Prefix: "answer"})
	fmt.Println(errors.As(err, &refused), refused.Code, err)
	_, err = edgepack.Open(folder+"/model", &edgepack.Options{Library: folder + "/lib/libembed.so"})
	fmt.Println(errors.As(err, &refused), refused.Code)
	library := folder + "/lib/libembed.so"
	_, err = edgepack.Open(folder, &edgepack.Options{PublicKey: []byte(os.Getenv("EDGEPACK_NEVER_SET"))})
	fmt.Println(errors.As(err, &refused), refused.Code)
	_, err = edgepack.Open("", &edgepack.Options{Library: library})
	fmt.Println(errors.As(err, &refused), refused.Code)
	for _, threads := range []int{1 << 32, -1} {
		if _, err = edgepack.Open(folder, &edgepack.Options{Threads: threads}); err == nil {
			panic("opened with another number of threads than was asked for")
		}
	}
	fmt.Println(len(must(bundle.Embed(nil))))
	fmt.Println(bundle.Close() == nil && bundle.Close() == nil)
	_, err = bundle.Embed(texts)
	fmt.Println(errors.Is(err, edgepack.ErrClosed))
}
