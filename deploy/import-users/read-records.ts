import { createReadStream } from "node:fs";
import { pipeline, Readable } from "node:stream";
import { parse } from "csv-parse";
import { UnusableRecord } from "./source-user.ts";

/** A record of a file with the line on which it begins, or why it cannot be read. */
export type FileRecord = { line: number; value: unknown } | { line: number; fault: UnusableRecord };

type ReadOptions = { onBytes?: (count: number) => void };

const maxRecordLength = 1024 * 1024;

async function* readText(path: string, { onBytes }: ReadOptions): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8");
  for await (const part of createReadStream(path) as AsyncIterable<Uint8Array>) {
    onBytes?.(part.length);
    yield decoder.decode(part, { stream: true });
  }
  yield decoder.decode();
}

function malformed(line: number, message: string): FileRecord {
  return { line, fault: new UnusableRecord("malformed", { message }) };
}

function parseJson(line: number, text: string): FileRecord {
  try {
    return { line, value: JSON.parse(text) };
  } catch {
    return malformed(line, "not JSON");
  }
}

/** Reads a file with a JSON value on each line. */
export async function* readJsonLines(path: string, options: ReadOptions = {}): AsyncGenerator<FileRecord> {
  let line = 1;
  let text = "";
  let isTooLong = false;
  const record = (): FileRecord[] => {
    if (isTooLong) return [malformed(line, "longer than 1 MiB")];
    return text.trim() === "" ? [] : [parseJson(line, text)];
  };
  const append = (part: string) => {
    isTooLong ||= text.length + part.length > maxRecordLength;
    text = isTooLong ? "" : text + part;
  };
  for await (const part of readText(path, options)) {
    const [first = "", ...rest] = part.split("\n");
    append(first);
    for (const next of rest) {
      yield* record();
      line += 1;
      [text, isTooLong] = ["", false];
      append(next);
    }
  }
  yield* record();
}

const notAList = 'the file does not begin with {"users": [';
const maxHeadLength = 100;

/**
 * Reads the objects in the list `users` of a JSON file, one at a time, since the file can be larger than memory.
 * @throws Error if the file does not begin with the list
 */
export async function* readUserList(path: string, options: ReadOptions = {}): AsyncGenerator<FileRecord> {
  let state = "head" as "head" | "between" | "object" | "string" | "escape" | "end";
  let line = 1;
  const object = { text: "", line: 1, depth: 0 };
  let head = "";
  for await (const part of readText(path, options)) {
    // Where the current object begins in this part.
    let from = 0;
    for (let at = 0; at < part.length; at++) {
      const character = part[at];
      if (character === "\n") line += 1;
      switch (state) {
        case "head":
          head += character;
          if (head.length > maxHeadLength) throw new Error(notAList);
          if (/^\s*(?:\{\s*"users"\s*:\s*)?\[$/.test(head)) state = "between";
          break;
        case "between":
          if (character === "]") state = "end";
          if (character !== "{") break;
          Object.assign(object, { text: "", line, depth: 1 });
          from = at;
          state = "object";
          break;
        case "object":
          if (character === '"') state = "string";
          if (character === "{") object.depth += 1;
          if (character === "}") object.depth -= 1;
          if (object.depth > 0) break;
          yield parseJson(object.line, object.text + part.slice(from, at + 1));
          state = "between";
          break;
        case "string":
          if (character === "\\") state = "escape";
          if (character === '"') state = "object";
          break;
        case "escape":
          state = "string";
          break;
        default:
      }
    }
    if (state === "object" || state === "string" || state === "escape") object.text += part.slice(from);
    if (object.text.length > maxRecordLength) {
      yield malformed(object.line, "longer than 1 MiB, or damaged: nothing after it was read");
      return;
    }
  }
  if (state === "head") throw new Error(notAList);
  if (state !== "end") yield malformed(line, "the file ends before its list of users does");
}

/**
 * Reads a CSV file: rows with a header as objects, otherwise as lists of cells.
 * @throws Error if the header lacks one of `columns`
 */
export async function* readCsvRows(
  path: string,
  { columns, ...options }: ReadOptions & { columns?: readonly string[] },
): AsyncGenerator<FileRecord> {
  const skipped: FileRecord[] = [];
  const parser = parse({
    bom: true,
    columns: columns !== undefined,
    info: true,
    max_record_size: maxRecordLength,
    record_delimiter: ["\r\n", "\n"],
    // Firebase does not escape quotes in names.
    relax_quotes: columns === undefined,
    relax_column_count: columns === undefined,
    skip_empty_lines: true,
    skip_records_with_error: true,
    on_skip: (error) => {
      skipped.push(malformed(Number(error?.lines ?? 0), "not a row of CSV with all columns"));
    },
  });
  // The iteration below throws the pipeline's errors.
  pipeline(Readable.from(readText(path, options)), parser, () => {});
  let isFirst = true;
  for await (const { record, info } of parser as AsyncIterable<{ record: unknown; info: { lines: number } }>) {
    const missing = isFirst && columns?.filter((name) => !Object.hasOwn(record as object, name));
    if (missing && missing.length > 0) throw new Error(`the file lacks the columns ${missing.join(", ")}`);
    isFirst = false;
    yield { line: info.lines, value: record };
  }
  // The parser is ahead of this loop, so damaged rows come last.
  yield* skipped;
}
