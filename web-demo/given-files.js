// SPDX-License-Identifier: Apache-2.0
// Files that a user gives to a page, as functions of node:fs for wisp-program.wasm in a worker. They can only be read.

const STDOUT = 1;
const STDERR = 2;
const FIRST_FILE = 3;

/** The program reads few bytes at a time; the files are read in blocks of so many. */
const BLOCK_BYTES = 1 << 20;

const FILE_MODE = 0o100444;
const FOLDER_MODE = 0o040555;

/** @param {string} code @returns {never} */
function fail(code) {
  throw Object.assign(new Error(code), { code });
}

/** @param {Blob | undefined} file none is a folder */
const factsOf = (file) => ({
  size: file?.size ?? 0,
  isFile: () => file !== undefined,
});

/** Facts as numbers of 64 bits; the inode tells files apart. @param {Blob | undefined} file @param {number} number */
const numbersOf = (file, number) => ({
  dev: 1n,
  ino: BigInt(number),
  mode: BigInt(file ? FILE_MODE : FOLDER_MODE),
  nlink: 1n,
  uid: 0n,
  gid: 0n,
  size: BigInt(file?.size ?? 0),
  mtimeNs: 0n,
  ctimeNs: 0n,
});

/**
 * Returns the functions of node:fs that a program needs that only reads.
 * @param {ReadonlyMap<string, Blob>} files by path; their folders are there, too
 * @param {(text: string, isError: boolean) => void} print receives what is written to the standard streams
 */
export function fileSystemOf(files, print) {
  const reader = new FileReaderSync();
  const decoders = new Map([STDOUT, STDERR].map((stream) => [stream, new TextDecoder()]));
  const paths = [...files.keys()];
  const folders = new Set(paths.flatMap((path) => foldersOf(path)));
  /** @type {Map<number, string>} */
  const opened = new Map();
  let next = FIRST_FILE;
  let block = { path: '', start: 0, bytes: new Uint8Array(0) };

  /** @param {string} path @returns {Blob | undefined} */
  const find = (path) => files.get(path) ?? (folders.has(path) ? undefined : fail('ENOENT'));

  /** @param {string} path @param {number} at @returns {Uint8Array} bytes from there on, none at the end of the file */
  function bytesAt(path, at) {
    const end = block.start + block.bytes.length;
    if (block.path !== path || at < block.start || at >= end) {
      const file = find(path) ?? fail('EISDIR');
      const part = file.slice(at, at + BLOCK_BYTES);
      block = { path, start: at, bytes: new Uint8Array(readPart(part)) };
    }
    return block.bytes.subarray(at - block.start);
  }

  /** @param {Blob} part */
  function readPart(part) {
    try {
      return reader.readAsArrayBuffer(part);
    } catch {
      return fail('EIO'); // the user has changed or removed the file
    }
  }

  /** @param {string} path @param {{ bigint?: boolean }} [options] */
  function statSync(path, { bigint = false } = {}) {
    const file = find(path);
    return bigint ? numbersOf(file, paths.indexOf(path) + 1) : factsOf(file);
  }

  return {
    constants: { O_RDONLY: 0, O_WRONLY: 1, O_CREAT: 64, O_EXCL: 128 },
    statSync,
    lstatSync: statSync,
    /** @param {number} file @param {{ bigint?: boolean }} [options] */
    fstatSync: (file, options) => statSync(opened.get(file) ?? fail('EBADF'), options),
    /** @param {string} path */
    accessSync: (path) => void find(path),
    realpathSync: (/** @type {string} */ path) => (find(path), path),
    /** @param {string} path @param {number} flags */
    openSync(path, flags) {
      if (flags !== 0) fail('EROFS');
      find(path);
      opened.set(next, path);
      return next++;
    },
    closeSync(/** @type {number} */ file) {
      if (!opened.delete(file)) fail('EBADF');
    },
    /** @param {number} file @param {Uint8Array} to @param {number} offset @param {number} length @param {number} from */
    readSync(file, to, offset, length, from) {
      const found = bytesAt(opened.get(file) ?? fail('EBADF'), from).subarray(0, length);
      to.set(found, offset);
      return found.length;
    },
    /** @param {number} stream @param {Uint8Array} bytes */
    writeSync(stream, bytes) {
      const decoder = decoders.get(stream) ?? fail('EBADF');
      print(decoder.decode(bytes.slice(), { stream: true }), stream === STDERR);
      return bytes.length;
    },
  };
}

/** @param {string} path @returns {string[]} the folders that it lies in */
function foldersOf(path) {
  const parts = path.split('/').slice(0, -1);
  return parts.map((_, i) => parts.slice(0, i + 1).join('/') || '/');
}
