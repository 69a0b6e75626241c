// SPDX-License-Identifier: Apache-2.0
//! Embeds texts by the module that `wisp convert --udf` writes, in wasmtime: cargo run wisp.wasm TEXT...
use wasmtime::{Engine, Instance, Module, Result, Store};

fn main() -> Result<()> {
    let engine = Engine::default();
    let module = Module::new(&engine, std::fs::read(std::env::args().nth(1).unwrap())?)?;
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[])?;
    let memory = instance.get_memory(&mut store, "memory").unwrap();
    let create = instance.get_typed_func::<u32, u32>(&mut store, "clickhouse_create_buffer")?;
    let embed = instance.get_typed_func::<(u32, u32), u32>(&mut store, "embed")?;
    // The bytes of a buffer: two numbers, an address and a size.
    let place = |data: &[u8], buffer: u32| {
        let number = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap()) as usize;
        number(buffer as usize)..number(buffer as usize) + number(buffer as usize + 4)
    };

    let texts: Vec<String> = std::env::args().skip(2).collect();
    let mut rows = Vec::new();
    for text in &texts {
        let mut size = text.len();
        while size > 0x7f {
            rows.push(size as u8 | 0x80);
            size >>= 7;
        }
        rows.push(size as u8);
        rows.extend(text.as_bytes());
    }
    let input = create.call(&mut store, rows.len() as u32)?;
    let at = place(memory.data(&store), input);
    memory.data_mut(&mut store)[at].copy_from_slice(&rows);
    let output = embed.call(&mut store, (input, texts.len() as u32))?;
    let data = memory.data(&store);
    let output = &data[place(data, output)];
    // Each row has its number of values in two bytes, then the values.
    for row in output.chunks(output.len() / texts.len()) {
        for value in row[2..].chunks(4) {
            print!("{} ", f32::from_le_bytes(value.try_into().unwrap()));
        }
        println!();
    }
    Ok(())
}
