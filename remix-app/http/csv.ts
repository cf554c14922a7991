/** A column of a CSV file. Amounts are strings, so that no digits are lost. */
export interface CsvColumn<Row> {
  name: string;
  value: (row: Row) => string | number | null | undefined;
}

const lineEnd = "\r\n";
const numberPattern = /^-?\d+(\.\d+)?$/;
/** Matches what a spreadsheet takes for a formula, including full-width characters. */
const formula = /^[=+\-@＝＋－＠\t\r]/;
/** Matches most fields, which need no change. Saves the other checks of a field. */
const plainFieldPattern = /^\w[^",;|\t\r\n]*$/;
/** Matches where a formula would begin in a spreadsheet that separates fields by another character than the comma. */
const formulaAfterSeparator = /(?<=[;|\t\r\n])(?=["'\s]*[=+\-@＝＋－＠])/g;

/** The rows of a file, all together or page by page as they are read. */
type Pages<Row> = Iterable<readonly Row[]> | AsyncIterable<readonly Row[]>;

/**
 * Returns a table as a file for spreadsheets and programs: UTF-8, RFC 4180, never cached. Reads pages only as fast as
 * the client does, and stops when the client disconnects. If a later page can't be read, the connection breaks, so that
 * a partial file never passes for a complete one.
 * @param options.name the file's name, without its extension
 * @throws the error of the first page, which is read before the response begins
 */
export async function createCsvResponse<Row>(
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

/** Yields the lines of each page. */
async function* pageTexts<Row>(columns: readonly CsvColumn<Row>[], pages: Pages<Row>): AsyncGenerator<string, string> {
  for await (const rows of pages) {
    yield rows.map((row) => line(columns.map((column) => column.value(row)))).join("");
  }
  return "";
}

function line(values: readonly (string | number | null | undefined)[]): string {
  return values.map(csvField).join(",") + lineEnd;
}

/**
 * Writes one field. Puts an apostrophe before text that a spreadsheet would run as a formula, also after `;` and other
 * separators: quotation marks don't protect these, because the spreadsheet then finds them inside a field.
 */
function csvField(value: string | number | null | undefined): string {
  if (value === null || value === undefined) return "";
  const text = String(value);
  if (plainFieldPattern.test(text)) return text;
  const escaped = formula.test(text) && !numberPattern.test(text) ? `'${text}` : text;
  const safe = escaped.replaceAll(formulaAfterSeparator, "'");
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
