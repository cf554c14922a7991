import { pipeline, Readable } from "node:stream";
import { CsvError, parse } from "csv-parse";
import { anthropicCsv } from "./anthropic-costs.ts";
import { awsReport } from "./aws-cost-report.ts";
import { azureExport } from "./azure-cost-export.ts";
import { type ReadLine, UnreadableCostFile } from "./cost-file.ts";
import { type CsvFormat, CsvHeader, type CsvReader, CsvRow } from "./csv-format.ts";
import { focusCosts } from "./focus-costs.ts";
import { googleCostTable, googleExport } from "./google-billing-export.ts";
import { openAiCsv } from "./openai-costs.ts";

/** The formats in order of preference. The first one that matches the header is used. */
const formats: readonly CsvFormat[] = [
  focusCosts,
  awsReport,
  openAiCsv,
  anthropicCsv,
  googleExport,
  googleCostTable,
  azureExport,
];

const formatNames = new Intl.ListFormat("en", { type: "disjunction" }).format(formats.map(({ name }) => name));

/** The maximum number of rows above the header. Google's cost table has eight. */
const maxPreambleRows = 40;
const maxRecordCharacters = 4 * 1024 * 1024;

type Parsed = { record: string[]; info: { records: number; empty_lines: number } };

/**
 * Reads a CSV file row by row, and detects its format, delimiter and header.
 * @throws UnreadableCostFile that names the row and the column
 */
export async function* readCsv(
  { head, text }: { head: string; text: AsyncIterable<string> },
  found: (format: Pick<CsvFormat, "id" | "name" | "hasWholeDays"> & { notes: () => string[] }) => void,
): AsyncGenerator<{ read: ReadLine; where: string }> {
  const delimiter = delimiterOf(head);
  const decimalComma = delimiter === ";";
  const preamble: string[][] = [];
  let open: { format: CsvFormat; header: CsvHeader; reader: CsvReader } | undefined;
  let lastCharacter = "\n";
  for await (const { record, info } of records(
    watched(text, (last) => {
      lastCharacter = last;
    }),
    delimiter,
  )) {
    const number = info.records + info.empty_lines;
    if (record.every((cell) => cell.trim() === "")) continue;
    if (!open) {
      open = openCsvFormat(record, preamble);
      if (open) {
        const { format, reader } = open;
        found({
          id: format.id,
          name: format.name,
          ...(format.hasWholeDays ? { hasWholeDays: true } : {}),
          notes: () => [...(reader.end?.() ?? []), ...endNote(lastCharacter)],
        });
        continue;
      }
      preamble.push(record);
      if (preamble.length > maxPreambleRows) break;
      continue;
    }
    const { header, reader } = open;
    const width = header.names.length;
    if (record.length < width || record.slice(width).some((cell) => cell.trim() !== "")) {
      throw new UnreadableCostFile(
        `Row ${number} has ${record.length} of ${width} columns. The file is incomplete or damaged. Download it again.`,
      );
    }
    const row = new CsvRow(record, { number, header, decimalComma });
    yield { read: reader.read(row), where: row.where };
  }
  if (!open) throw unknownColumns(preamble[0] ?? []);
}

function endNote(lastCharacter: string): string[] {
  return lastCharacter === "\n" || lastCharacter === "\r"
    ? []
    : ["The last line doesn’t end with a line break. Check that the file is complete."];
}

function openCsvFormat(record: readonly string[], preamble: readonly string[][]) {
  const header = new CsvHeader(record);
  const format = formats.find(({ isHeader }) => isHeader((column) => header.has(column)));
  if (!format) return undefined;
  for (const columns of format.required) {
    const column = header.first(...columns);
    if (column === undefined) {
      const missing = columns.length === 1 ? columns[0] : columns.join(" or ");
      throw new UnreadableCostFile(
        `This looks like ${format.name}, but column ${missing} is missing. ${format.advice}`,
      );
    }
    if (header.isRepeated(column)) {
      throw new UnreadableCostFile(`Column ${header.title(column)} appears twice in the file. ${format.advice}`);
    }
  }
  return { format, header, reader: format.begin(header, preamble) };
}

function unknownColumns(first: readonly string[]): UnreadableCostFile {
  const shown = first.flatMap((cell) => cell.trim().slice(0, 40) || []).slice(0, 8);
  return new UnreadableCostFile(
    `The file’s columns (${shown.join(", ")}) don’t match any supported export. Import one of these, exactly as you downloaded it: ${formatNames}.`,
  );
}

const delimiters = [",", ";", "\t", "|"] as const;

/** Returns the most frequent delimiter in the first lines, outside of quotes. */
function delimiterOf(head: string): string {
  const lines = head
    .replaceAll(/"(?:[^"]|"")*"/g, "")
    .split(/\r\n|\r|\n/)
    .slice(0, maxPreambleRows);
  const maxColumns = (delimiter: string) => Math.max(...lines.map((line) => line.split(delimiter).length));
  return delimiters.reduce((best, delimiter) => (maxColumns(delimiter) > maxColumns(best) ? delimiter : best));
}

async function* watched(text: AsyncIterable<string>, see: (lastCharacter: string) => void): AsyncGenerator<string> {
  for await (const part of text) {
    if (part !== "") see(part.slice(-1));
    yield part;
  }
}

async function* records(text: AsyncIterable<string>, delimiter: string): AsyncGenerator<Parsed> {
  const parser = parse({
    delimiter,
    info: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: maxRecordCharacters,
  });
  let failure: unknown;
  pipeline(Readable.from(text), parser, (error) => {
    failure = error;
  });
  try {
    yield* parser as AsyncIterable<Parsed>;
  } catch (error) {
    const cause = failure ?? error;
    if (!(cause instanceof CsvError)) throw cause;
    throw new UnreadableCostFile(
      cause.code === "CSV_QUOTE_NOT_CLOSED"
        ? "The file is incomplete: it ends inside a quoted cell. Download it again."
        : `Row ${parser.info.records + 1} isn’t valid CSV: a quote is in the wrong place. Import the file as it was downloaded.`,
    );
  }
}
