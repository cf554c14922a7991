import type { Decimal } from "#shared/decimal.ts";
import { type ReadLine, UnreadableCostFile } from "./cost-file.ts";
import { readAmount } from "./read-amount.ts";
import { type Moment, readMoment } from "./read-day.ts";

/** Normalizes a column's name. Exports and databases differ in case, spaces and punctuation. */
export function columnKey(name: string): string {
  return name
    .normalize("NFKC")
    .replace(/\([^)]*\)$/, "")
    .toLowerCase()
    .replace(/[^a-z0-9]/g, "");
}

export type CsvFormat = {
  id: string;
  name: string;
  /** What to export instead if a column is missing. */
  advice: string;
  /**
   * Whether one file contains all lines of a day for an account and a service. Two such files overlap if both contain
   * the same day, account and service.
   */
  hasWholeDays?: true;
  /** Returns whether a header has this format, even if a required column is missing. */
  isHeader: (has: (column: string) => boolean) => boolean;
  /** The required columns. A file needs one column of each inner list. */
  required: readonly (readonly string[])[];
  /**
   * Starts to read a file.
   * @param columns the header
   * @param preamble rows above the header
   * @returns a reader of rows, whose `end` may add notes
   */
  begin: (columns: Columns, preamble: readonly string[][]) => CsvReader;
};

export type CsvReader = { read: (row: CsvRow) => ReadLine; end?: () => string[] };

export type Columns = {
  has: (column: string) => boolean;
  /** Returns the key of the first given column that the file has. */
  first: (...columns: string[]) => string | undefined;
  /** Returns the column's name as written in the file. */
  title: (column: string) => string;
};

const nulls = new Set(["", "NULL", "null", "(null)", "\\N"]);

/** A row and its row number in a spreadsheet. */
export class CsvRow {
  readonly number: number;
  readonly cells: readonly string[];
  readonly #header: CsvHeader;
  readonly #decimalComma: boolean;

  constructor(cells: readonly string[], { number, header, decimalComma }: RowContext) {
    this.cells = cells;
    this.number = number;
    this.#header = header;
    this.#decimalComma = decimalComma;
  }

  get where(): string {
    return `Row ${this.number}`;
  }

  /** Returns the first non-empty value of the given columns, or null. */
  text(...columns: string[]): string | null {
    for (const column of columns) {
      const at = this.#header.index(column);
      const cell = at === undefined ? "" : (this.cells[at] ?? "").trim();
      if (!nulls.has(cell)) return cell;
    }
    return null;
  }

  /**
   * Returns the first non-empty value of the given columns.
   * @throws UnreadableCostFile if all of them are empty
   */
  needed(...columns: string[]): string {
    const text = this.text(...columns);
    if (text !== null) return text;
    throw new UnreadableCostFile(
      `${this.where}: ${this.title(columns)} is empty. Import the file as it was downloaded.`,
    );
  }

  /**
   * Returns the amount in the first non-empty of the given columns.
   * @throws UnreadableCostFile if all columns are empty or the text is not an exact amount
   */
  amount(...columns: string[]): Decimal {
    const text = this.needed(...columns);
    const value = readAmount(text, { decimalComma: this.#decimalComma });
    if (value !== null) return value;
    const advice = /[.,]/.test(text)
      ? " Write amounts with a decimal point and without thousands separators, such as 1234.56."
      : "";
    throw new UnreadableCostFile(`${this.where}: ${this.title(columns)} is "${text}", which isn’t an amount.${advice}`);
  }

  /**
   * Returns the time in the first non-empty of the given columns.
   * @throws UnreadableCostFile if all columns are empty or the text is not a time
   */
  moment(...columns: string[]): Moment {
    const text = this.needed(...columns);
    const value = readMoment(text);
    if (value !== null) return value;
    throw new UnreadableCostFile(
      `${this.where}: ${this.title(columns)} is "${text}", which isn’t a time such as 2026-10-31T00:00:00Z. Import the file as it was downloaded.`,
    );
  }

  /** Returns a time, or null if the columns are missing or empty. */
  optionalMoment(...columns: string[]): Moment | null {
    return this.text(...columns) === null ? null : this.moment(...columns);
  }

  title(columns: readonly string[]): string {
    const column = columns.find((one) => this.text(one) !== null) ?? columns.find((one) => this.#header.has(one));
    return `column ${this.#header.title(column ?? columns[0] ?? "")}`;
  }
}

type RowContext = { number: number; header: CsvHeader; decimalComma: boolean };

/** A parsed header, indexed by column key. */
export class CsvHeader implements Columns {
  /** The column names, without empty ones at the end. */
  readonly names: readonly string[];
  readonly #indexes = new Map<string, number>();
  readonly #repeated = new Set<string>();
  readonly #found = new Map<string, number>();

  constructor(names: readonly string[]) {
    this.names = names.slice(0, names.findLastIndex((name) => name.trim() !== "") + 1);
    for (const [index, name] of this.names.entries()) {
      const key = columnKey(name);
      if (this.#indexes.has(key)) this.#repeated.add(key);
      else this.#indexes.set(key, index);
    }
  }

  has(column: string): boolean {
    return this.index(column) !== undefined;
  }

  isRepeated(column: string): boolean {
    return this.#repeated.has(columnKey(column));
  }

  /** Caches the result for each column, because this method is called for each cell. */
  index(column: string): number | undefined {
    const known = this.#found.get(column);
    if (known !== undefined) return known < 0 ? undefined : known;
    const index = this.#indexes.get(columnKey(column));
    this.#found.set(column, index ?? -1);
    return index;
  }

  first(...columns: string[]): string | undefined {
    return columns.find((column) => this.has(column));
  }

  title(column: string): string {
    return this.names[this.index(column) ?? -1]?.trim() ?? column;
  }
}
