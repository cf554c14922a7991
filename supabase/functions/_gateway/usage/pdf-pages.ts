import { Buffer } from "node:buffer";
import { inflateSync } from "node:zlib";

/** How much is read at once: a header, a dictionary, and the ends of a file. */
const headBytes = 1024;
const dictionaryBytes = 4 * 1024;
const windowBytes = 128 * 1024;
/** The least that a read costs, for the work in addition to its bytes. */
const minReadBytes = 512;
/** More pages than any provider accepts. */
const maxPages = 100_000;

/** How many bytes of a request's files may still be read, unpacked and searched. */
export type ReadBudget = { left: number };
/** Reads parts of a base64 file. @throws RangeError after its share of the budget */
type PdfFile = {
  size: number;
  read: (from: number, length: number) => Buffer;
  unpack: (packed: Buffer) => Buffer;
  spend: (bytes: number) => void;
};
/** Where an object is: at an offset of the file, or packed into another object. */
type ObjectLocation = { offset: number } | { stream: number };
/** A cross-reference section: its dictionary, and a lookup of objects. */
type Section = { dictionary: string; find: (object: number) => ObjectLocation | undefined };

/**
 * Counts the pages of a base64 PDF without reading all of it: by its page tree, or by the roots of page trees in its
 * first and last bytes (ISO 32000-1, 7.5). Each way may use half of what is left of the budget, so that other files can
 * be read too. The count of a linearization dictionary is ignored, because nothing else depends on it.
 * @returns undefined if the count can't be read
 */
export function countPdfPages(base64: string, budget: ReadBudget): number | undefined {
  for (const count of [countTreePages, countAbsoluteTreePages, countVisiblePages]) {
    if (budget.left < 2 * dictionaryBytes) return undefined;
    try {
      const pages = count(openFile(base64, budget));
      if (pages !== undefined && pages > 0 && pages <= maxPages) return pages;
    } catch {
      // A damaged or unusual file may still show its pages in another way.
    }
  }
  return undefined;
}

function openFile(base64: string, budget: ReadBudget): PdfFile {
  let share = Math.floor(budget.left / 2);
  const spend = (bytes: number) => {
    const spent = Math.min(bytes, share);
    share -= spent;
    budget.left -= spent;
    if (spent < bytes) throw new RangeError("too much to read");
  };
  const padding = base64.endsWith("==") ? 2 : Number(base64.endsWith("="));
  const size = Math.floor(((base64.length - padding) * 3) / 4);
  return {
    size,
    spend,
    read(from, length) {
      const start = Math.max(from, 0);
      const end = Math.min(start + length, size);
      if (end <= start) return Buffer.alloc(0);
      spend(Math.max(end - start, minReadBytes));
      const group = Math.floor(start / 3);
      const bytes = Buffer.from(base64.slice(group * 4, Math.ceil(end / 3) * 4), "base64");
      return bytes.subarray(start - group * 3, end - group * 3);
    },
    unpack(packed) {
      const limit = Math.max(share, 1);
      try {
        const bytes = inflateSync(packed, { maxOutputLength: limit });
        spend(bytes.length);
        return bytes;
      } catch (error) {
        spend(limit);
        throw error;
      }
    },
  };
}

const textOf = (bytes: Buffer) => bytes.toString("latin1");
const numberAfter = (text: string, name: string) => {
  const found = new RegExp(`/${name}\\s+(\\d+)(?!\\d|\\s+\\d+\\s+R)`).exec(text)?.[1];
  return found === undefined ? undefined : Number(found);
};
const referenceAfter = (text: string, name: string) => {
  const found = new RegExp(`/${name}\\s+(\\d+)\\s+\\d+\\s+R`).exec(text)?.[1];
  return found === undefined ? undefined : Number(found);
};

/** Returns the count of a page tree's node, unless it has more children. */
function readNodeCount(node: string): number | undefined {
  const count = numberAfter(node, "Count");
  const kids = /\/Kids\s*\[([^\]]*)/.exec(node)?.[1]?.match(/\d\s+R/g)?.length ?? 0;
  return count !== undefined && count >= kids ? count : undefined;
}

/** Returns the count of the page tree's root. Offsets begin at the file's header, which other bytes may precede. */
function countTreePages(file: PdfFile): number | undefined {
  const begin = Math.max(file.read(0, headBytes).indexOf("%PDF-"), 0);
  return countRootPages({ ...file, read: (from, length) => file.read(begin + from, length), size: file.size - begin });
}

/** Returns the count of the page tree's root if offsets begin at the file's first byte, before its header. */
function countAbsoluteTreePages(file: PdfFile): number | undefined {
  return file.read(0, headBytes).indexOf("%PDF-") > 0 ? countRootPages(file) : undefined;
}

/** Returns the count of the page tree's root, which the cross-reference sections lead to. */
function countRootPages(file: PdfFile): number | undefined {
  const sections = readSections(file, findCrossReferenceOffset(file));
  const root = sections.map(({ dictionary }) => referenceAfter(dictionary, "Root")).find((each) => each !== undefined);
  const catalog = root === undefined ? undefined : readObject(file, sections, root);
  const tree = catalog === undefined ? undefined : referenceAfter(catalog, "Pages");
  const pages = tree === undefined ? undefined : readObject(file, sections, tree, windowBytes);
  return pages === undefined ? undefined : readNodeCount(pages);
}

/** Returns the last offset of a cross-reference section, which other bytes may follow. */
function findCrossReferenceOffset(file: PdfFile): number {
  for (const length of [2 * headBytes, windowBytes]) {
    const end = textOf(file.read(file.size - length, length));
    const at = end.lastIndexOf("startxref");
    const start = at < 0 ? undefined : /^startxref\s+(\d+)/.exec(end.slice(at, at + 64))?.[1];
    if (start !== undefined) return Number(start);
  }
  throw new RangeError("no cross-reference");
}

/** Returns the cross-reference sections, newest first. */
function readSections(file: PdfFile, start: number): Section[] {
  const sections: Section[] = [];
  const seen = new Set<number>();
  const offsets = [start];
  for (let offset = offsets.shift(); offset !== undefined; offset = offsets.shift()) {
    if (seen.has(offset)) continue;
    seen.add(offset);
    const isTable = /^\s*xref/.test(textOf(file.read(offset, 16)));
    const section = isTable ? readTable(file, offset) : readCrossReferenceStream(file, offset);
    sections.push(section);
    const further = [numberAfter(section.dictionary, "XRefStm"), numberAfter(section.dictionary, "Prev")];
    offsets.push(...further.filter((each) => each !== undefined));
  }
  return sections;
}

/** Reads the headers of a table's ranges, and an entry only if it is looked up. An entry has 20 bytes. */
function readTable(file: PdfFile, offset: number): Section {
  const ranges: { first: number; count: number; at: number }[] = [];
  let at = offset + (/^\s*xref\s*/.exec(textOf(file.read(offset, 32)))?.[0].length ?? 0);
  for (;;) {
    const text = textOf(file.read(at, 64));
    const header = /^\s*(\d+) +(\d+) *(?:\r\n|\n|\r)/.exec(text);
    if (!header) break;
    at += header[0].length;
    ranges.push({ first: Number(header[1]), count: Number(header[2]), at });
    at += Number(header[2]) * 20;
  }
  const [dictionary = ""] = textOf(file.read(at, dictionaryBytes)).split("startxref");
  return {
    dictionary,
    find(object) {
      const range = ranges.find(({ first, count }) => object >= first && object < first + count);
      const entry = range && textOf(file.read(range.at + (object - range.first) * 20, 20));
      const used = entry && /^(\d{10}) \d{5} n/.exec(entry)?.[1];
      return used ? { offset: Number(used) } : undefined;
    },
  };
}

function readCrossReferenceStream(file: PdfFile, offset: number): Section {
  const { dictionary, data } = readStream(file, [], offset);
  const numbers = (name: string) => {
    const list = new RegExp(`/${name}\\s*\\[([\\d\\s]*)\\]`).exec(dictionary)?.[1];
    return list?.trim().split(/\s+/).map(Number);
  };
  const [typeWidth = 0, placeWidth = 0, restWidth = 0] = numbers("W") ?? [];
  const rowBytes = typeWidth + placeWidth + restWidth;
  const isPredicted = (numberAfter(dictionary, "Predictor") ?? 1) >= 10;
  if (rowBytes === 0 || rowBytes > maxRowBytes || (isPredicted && numberAfter(dictionary, "Columns") !== rowBytes)) {
    throw new RangeError("an unusual cross-reference");
  }
  const index = numbers("Index") ?? [0, numberAfter(dictionary, "Size") ?? 0];
  const rowAt = (row: number): Uint8Array | undefined => {
    const from = row * (rowBytes + Number(isPredicted));
    if (from + rowBytes + Number(isPredicted) > data.length) return undefined;
    if (!isPredicted) return data.subarray(from, from + rowBytes);
    file.spend(from);
    return undoPredictor(data, { row, columns: rowBytes });
  };
  return {
    dictionary,
    find(object) {
      for (let pair = 0, row = 0; pair + 1 < index.length; pair += 2) {
        const [first = 0, count = 0] = index.slice(pair, pair + 2);
        const bytes = object >= first && object < first + count ? rowAt(row + object - first) : undefined;
        row += count;
        if (!bytes) continue;
        const type = typeWidth === 0 ? 1 : numberIn(bytes.subarray(0, typeWidth));
        const place = numberIn(bytes.subarray(typeWidth, typeWidth + placeWidth));
        if (type === 0) return undefined;
        return type === 2 ? { stream: place } : { offset: place };
      }
      return undefined;
    },
  };
}

/** Longer than any row of a cross-reference stream. */
const maxRowBytes = 32;

function numberIn(bytes: Uint8Array): number {
  return bytes.reduce((number, byte) => number * 256 + byte, 0);
}

/** Undoes the PNG predictors None, Sub and Up, which cross-reference streams use, for one row. */
function undoPredictor(data: Buffer, { row, columns }: { row: number; columns: number }): Uint8Array {
  const bytes = new Uint8Array(columns);
  // Each row is added to the one above, up to a row that doesn't depend on others.
  for (let at = row; at >= 0; at--) {
    const from = at * (columns + 1);
    const predictor = data[from] ?? 0;
    if (predictor > 2) throw new RangeError("an unusual predictor");
    for (let column = 0, left = 0; column < columns; column++) {
      const byte = data[from + 1 + column] ?? 0;
      left = predictor === 1 ? left + byte : byte;
      bytes[column] = (bytes[column] ?? 0) + left;
    }
    if (predictor !== 2) break;
  }
  return bytes;
}

/** Reads a stream's dictionary and its unpacked data. */
function readStream(file: PdfFile, sections: readonly Section[], offset: number): { dictionary: string; data: Buffer } {
  const text = textOf(file.read(offset, dictionaryBytes));
  const begin = /stream(?:\r\n|\n)/.exec(text);
  if (!begin) throw new RangeError("no stream");
  const dictionary = text.slice(0, begin.index);
  const elsewhere = referenceAfter(dictionary, "Length");
  const length =
    elsewhere === undefined
      ? numberAfter(dictionary, "Length")
      : Number(/obj\s+(\d+)/.exec(readObject(file, sections, elsewhere) ?? "")?.[1]);
  if (!length) throw new RangeError("no length");
  const packed = file.read(offset + begin.index + begin[0].length, length);
  return { dictionary, data: /\/Filter/.test(dictionary) ? file.unpack(packed) : packed };
}

/** Returns an object's text, up to a length. */
function readObject(
  file: PdfFile,
  sections: readonly Section[],
  object: number,
  length = dictionaryBytes,
): string | undefined {
  const place = sections.map(({ find }) => find(object)).find((each) => each !== undefined);
  if (!place) return undefined;
  if ("offset" in place) return textOf(file.read(place.offset, length)).split("endobj")[0];
  const holder = sections.map(({ find }) => find(place.stream)).find((each) => each !== undefined);
  if (!holder || !("offset" in holder)) return undefined;
  const { dictionary, data } = readStream(file, sections, holder.offset);
  const first = numberAfter(dictionary, "First") ?? 0;
  // Splitting a header takes longer than unpacking it.
  file.spend(first * 8);
  const header = textOf(data.subarray(0, first)).trim().split(/\s+/).map(Number);
  for (let at = 0; at + 1 < header.length; at += 2) {
    if (header[at] === object)
      return textOf(data.subarray(first + (header[at + 1] ?? 0), first + (header[at + 3] ?? data.length)));
  }
  return undefined;
}

/**
 * Returns the largest count of the roots of page trees in the first and last bytes. If these are the whole file and it
 * has no page tree and no compressed objects, counts its pages.
 */
function countVisiblePages(file: PdfFile): number | undefined {
  const isWhole = file.size <= 2 * windowBytes;
  const head = textOf(file.read(0, isWhole ? file.size : windowBytes));
  if (!head.includes("%PDF-")) return undefined;
  const tail = isWhole ? "" : textOf(file.read(file.size - windowBytes, windowBytes));
  // An object that is cut off may lack its parent.
  const objects = [...head.split("endobj").slice(0, -1), ...tail.split("endobj").slice(1)];
  const nodes = objects.filter((object) => /\/Type\s*\/Pages\b/.test(object));
  const counts = nodes.filter((node) => !/\/Parent\b/.test(node)).map(readNodeCount);
  if (nodes.length > 0) return counts.includes(undefined) ? undefined : Math.max(...counts.map(Number));
  if (!isWhole || /\/ObjStm\b/.test(head)) return undefined;
  return [...head.matchAll(/\/Type\s*\/Page(?![A-Za-z])/g)].length;
}
