import { Buffer } from "node:buffer";
import { inflateSync } from "node:zlib";

/** How much of a file is read and unpacked by each way to count its pages. */
const maxBytes = 2 * 1024 * 1024;
/** How much is read at once: a dictionary, and the ends of a file. */
const dictionaryBytes = 4 * 1024;
const windowBytes = 128 * 1024;
/** More pages than any provider accepts. */
const maxPages = 100_000;

/** Reads parts of a base64 file. @throws RangeError after `maxBytes` */
type PdfFile = { size: number; read: (from: number, length: number) => Buffer; unpack: (packed: Buffer) => Buffer };
/** Where an object is: at an offset of the file, or packed into another object. */
type Place = { offset: number } | { stream: number };
/** A cross-reference section: its dictionary, and a lookup of objects. */
type Section = { dictionary: string; find: (object: number) => Place | undefined };

/**
 * Counts the pages of a base64 PDF without reading all of it: by its linearization dictionary, by its page tree, or by
 * the page trees in its first and last bytes (ISO 32000-1, 7.5 and annex F).
 * @returns undefined if the count can't be read
 */
export function countPdfPages(base64: string): number | undefined {
  for (const count of [linearizedPages, treePages, visiblePages]) {
    try {
      const pages = count(openFile(base64));
      if (pages !== undefined && pages > 0 && pages <= maxPages) return pages;
    } catch {
      // A damaged or unusual file may still show its pages in another way.
    }
  }
  return undefined;
}

function openFile(base64: string): PdfFile {
  let left = maxBytes;
  const spend = (bytes: number) => {
    left -= bytes;
    if (left < 0) throw new RangeError("too much to read");
  };
  const size = Math.floor((base64.replace(/={1,2}$/, "").length * 3) / 4);
  return {
    size,
    read(from, length) {
      const start = Math.max(from, 0);
      const end = Math.min(start + length, size);
      if (end <= start) return Buffer.alloc(0);
      spend(end - start);
      const group = Math.floor(start / 3);
      const bytes = Buffer.from(base64.slice(group * 4, Math.ceil(end / 3) * 4), "base64");
      return bytes.subarray(start - group * 3, end - group * 3);
    },
    unpack(packed) {
      const bytes = inflateSync(packed, { maxOutputLength: Math.max(left, 1) });
      spend(bytes.length);
      return bytes;
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

/** Returns the count at the beginning of a linearized file that was not changed since. */
function linearizedPages(file: PdfFile): number | undefined {
  const head = textOf(file.read(0, 1_024));
  const dictionary = /<<[^>]*\/Linearized[^>]*>>/.exec(head)?.[0];
  return dictionary && numberAfter(dictionary, "L") === file.size ? numberAfter(dictionary, "N") : undefined;
}

/** Returns the count of the page tree's root, which the cross-reference sections lead to. */
function treePages(file: PdfFile): number | undefined {
  const start = /startxref\s+(\d+)(?![\s\S]*startxref)/.exec(textOf(file.read(file.size - 2_048, 2_048)))?.[1];
  const sections = start === undefined ? [] : readSections(file, Number(start));
  const root = sections.map(({ dictionary }) => referenceAfter(dictionary, "Root")).find((each) => each !== undefined);
  const catalog = root === undefined ? undefined : readObject(file, sections, root);
  const tree = catalog === undefined ? undefined : referenceAfter(catalog, "Pages");
  const pages = tree === undefined ? undefined : readObject(file, sections, tree, windowBytes);
  return pages === undefined ? undefined : numberAfter(pages, "Count");
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
  const rows = withoutPredictor(data, dictionary);
  const numbers = (name: string) => {
    const list = new RegExp(`/${name}\\s*\\[([\\d\\s]*)\\]`).exec(dictionary)?.[1];
    return list?.trim().split(/\s+/).map(Number);
  };
  const widths = numbers("W") ?? [];
  const [typeWidth = 0, placeWidth = 0, restWidth = 0] = widths;
  const rowBytes = typeWidth + placeWidth + restWidth;
  const index = numbers("Index") ?? [0, numberAfter(dictionary, "Size") ?? 0];
  return {
    dictionary,
    find(object) {
      for (let pair = 0, row = 0; pair + 1 < index.length; pair += 2) {
        const [first = 0, count = 0] = index.slice(pair, pair + 2);
        const at = (row + object - first) * rowBytes;
        row += count;
        if (object < first || object >= first + count || at + rowBytes > rows.length) continue;
        const type = typeWidth === 0 ? 1 : numberIn(rows.subarray(at, at + typeWidth));
        const place = numberIn(rows.subarray(at + typeWidth, at + typeWidth + placeWidth));
        if (type === 0) return undefined;
        return type === 2 ? { stream: place } : { offset: place };
      }
      return undefined;
    },
  };
}

function numberIn(bytes: Buffer): number {
  return bytes.reduce((number, byte) => number * 256 + byte, 0);
}

/** Undoes the PNG predictors None, Sub and Up, which cross-reference streams use. */
function withoutPredictor(data: Buffer, dictionary: string): Buffer {
  if ((numberAfter(dictionary, "Predictor") ?? 1) < 10) return data;
  const columns = numberAfter(dictionary, "Columns") ?? 1;
  const rows = Buffer.alloc(Math.floor(data.length / (columns + 1)) * columns);
  for (let at = 0, from = 0; at < rows.length; at += columns, from += columns + 1) {
    const predictor = data[from] ?? 0;
    if (predictor > 2) throw new RangeError("an unusual predictor");
    for (let column = 0; column < columns; column++) {
      const above = predictor === 2 && at > 0 ? (rows[at + column - columns] ?? 0) : 0;
      const left = predictor === 1 && column > 0 ? (rows[at + column - 1] ?? 0) : 0;
      rows[at + column] = (data[from + 1 + column] ?? 0) + above + left;
    }
  }
  return rows;
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
  const header = textOf(data.subarray(0, first)).trim().split(/\s+/).map(Number);
  for (let at = 0; at + 1 < header.length; at += 2) {
    if (header[at] === object)
      return textOf(data.subarray(first + (header[at + 1] ?? 0), first + (header[at + 3] ?? data.length)));
  }
  return undefined;
}

/**
 * Returns the largest count of the page trees in the first and last bytes. If these are the whole file and there is no
 * count, counts its pages.
 */
function visiblePages(file: PdfFile): number | undefined {
  const isWhole = file.size <= 2 * windowBytes;
  const text = isWhole
    ? textOf(file.read(0, file.size))
    : textOf(file.read(0, windowBytes)) + textOf(file.read(file.size - windowBytes, windowBytes));
  if (!text.includes("%PDF-")) return undefined;
  const trees = text.split(/endobj/).filter((object) => /\/Type\s*\/Pages\b/.test(object));
  const counts = trees.flatMap((tree) => numberAfter(tree, "Count") ?? []);
  if (counts.length > 0) return Math.max(...counts);
  return isWhole ? [...text.matchAll(/\/Type\s*\/Page(?![A-Za-z])/g)].length : undefined;
}
