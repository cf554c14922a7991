/** A column of a file: its name, and what stands in it. Amounts come as exact texts. */
export interface CsvColumn<Row> {
  name: string;
  value: (row: Row) => string | number | null | undefined;
}

const lineEnd = "\r\n";
const number = /^-?\d+(\.\d+)?$/;
/** What a spreadsheet would take for a formula, in full width too. */
const formula = /^[=+\-@＝＋－＠\t\r]/;

/** The rows of a file: all at once, or page by page as they are read. */
type Pages<Row> = Iterable<readonly Row[]> | AsyncIterable<readonly Row[]>;

/**
 * A table as a file for spreadsheets and programs: UTF-8, RFC 4180, never kept by a cache. Pages are read as fast as
 * they are taken, and no further once nobody takes them. A file is whole: where a later page cannot be read, the
 * connection breaks, so that no part of it passes for all.
 * @param options.name of the file, without its ending
 * @throws whatever the first page throws, which is read before the answer begins
 */
export async function csvFile<Row>(
  columns: readonly CsvColumn<Row>[],
  { name, pages }: { name: string; pages: Pages<Row> },
): Promise<Response> {
  const texts = pageTexts(columns, pages);
  const first = await texts.next();
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(encoder.encode(line(columns.map((column) => column.name)) + first.value)),
    async pull(controller) {
      const next = await texts.next().catch(() => {
        throw new Error(`The file ${name} broke off: a page of it couldn’t be read.`);
      });
      if (next.done) controller.close();
      else controller.enqueue(encoder.encode(next.value));
    },
    async cancel() {
      await texts.return("");
    },
  });
  return new Response(body, {
    headers: {
      "Content-Type": "text/csv; charset=utf-8",
      "Content-Disposition": `attachment; filename="${name.replaceAll(/[^A-Za-z0-9._-]+/g, "-")}.csv"`,
      "Cache-Control": "private, no-store",
    },
  });
}

/** The lines of each page; of none where there is no page. */
async function* pageTexts<Row>(columns: readonly CsvColumn<Row>[], pages: Pages<Row>): AsyncGenerator<string, string> {
  for await (const rows of pages) {
    yield rows.map((row) => line(columns.map((column) => column.value(row)))).join("");
  }
  return "";
}

function line(values: readonly (string | number | null | undefined)[]): string {
  return values.map(csvField).join(",") + lineEnd;
}

/** One field. What begins as a formula would be run by a spreadsheet, so that it is led by an apostrophe. */
function csvField(value: string | number | null | undefined): string {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = formula.test(text) && !number.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
