/** A column of a file: its name, and what stands in it. Amounts come as exact texts. */
export interface CsvColumn<Row> {
  name: string;
  value: (row: Row) => string | number | null | undefined;
}

const lineEnd = "\r\n";
const number = /^-?\d+(\.\d+)?$/;
/** What a spreadsheet would take for a formula, in full width too. */
const formula = /^[=+\-@＝＋－＠\t\r]/;

/**
 * A table as a file for spreadsheets and programs: UTF-8, RFC 4180, never kept by a cache.
 * @param name of the file, without its ending
 */
export function csvFile<Row>(name: string, columns: readonly CsvColumn<Row>[], rows: readonly Row[]): Response {
  const header = columns.map((column) => csvField(column.name));
  const lines = rows.map((row) => columns.map((column) => csvField(column.value(row))));
  const body = [header, ...lines].map((fields) => fields.join(",") + lineEnd).join("");
  return new Response(body, {
    headers: {
      "Content-Type": "text/csv; charset=utf-8",
      "Content-Disposition": `attachment; filename="${name.replaceAll(/[^A-Za-z0-9._-]+/g, "-")}.csv"`,
      "Cache-Control": "private, no-store",
    },
  });
}

/** One field. What begins as a formula would be run by a spreadsheet, so that it is led by an apostrophe. */
function csvField(value: string | number | null | undefined): string {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = formula.test(text) && !number.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
