// SPDX-License-Identifier: Apache-2.0

// Embeds texts by the module that `wisp convert --udf` writes, in wazero: go run . wisp.wasm TEXT...
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"

	"github.com/tetratelabs/wazero"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx := context.Background()
	code, err := os.ReadFile(os.Args[1])
	check(err)
	module, err := wazero.NewRuntime(ctx).Instantiate(ctx, code)
	check(err)
	call := func(name string, arguments ...uint64) uint32 {
		results, err := module.ExportedFunction(name).Call(ctx, arguments...)
		check(err)
		return uint32(results[0])
	}
	memory := module.Memory()
	bytes := func(buffer uint32) []byte { // of a buffer: two numbers, an address and a size
		address, _ := memory.ReadUint32Le(buffer)
		size, _ := memory.ReadUint32Le(buffer + 4)
		view, _ := memory.Read(address, size)
		return view
	}

	texts := os.Args[2:]
	var rows []byte
	for _, text := range texts {
		rows = append(binary.AppendUvarint(rows, uint64(len(text))), text...)
	}
	input := call("clickhouse_create_buffer", uint64(len(rows)))
	copy(bytes(input), rows)
	output := bytes(call("embed", uint64(input), uint64(len(texts))))
	for range texts {
		n, length := binary.Uvarint(output)
		output = output[length:]
		for i := range n {
			fmt.Print(math.Float32frombits(binary.LittleEndian.Uint32(output[4*i:])), " ")
		}
		fmt.Println()
		output = output[4*n:]
	}
}
