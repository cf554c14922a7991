import type { ReactNode } from "react";

export interface DataColumn<Row> {
  /** Of the column, and its label beside the value on small screens. */
  label: string;
  cell: (row: Row) => ReactNode;
  /** Right-aligned, with digits of one width. */
  numeric?: boolean;
  /**
   * Where the screen is small: `aside` stands at the right beside the row's name (one column should), `below` (the
   * default) beneath the name with its label, `hidden` not at all.
   */
  small?: "aside" | "below" | "hidden";
}

export interface DataTableProps<Row> {
  /** What the table holds, for assistive technology. */
  caption: string;
  /** The first names the row. */
  columns: readonly [DataColumn<Row>, ...DataColumn<Row>[]];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  /** What stands in place of a table without rows: what it is for and how to begin. */
  empty: ReactNode;
}

/** A table; where the screen is small, a list of cards with the columns that matter, and the rest beneath. */
export function DataTable<Row>({ caption, columns, rows, rowKey, empty }: DataTableProps<Row>) {
  if (rows.length === 0) return <div className="max-w-prose text-muted">{empty}</div>;
  const [name, ...others] = columns;
  const below = others.filter(({ small = "below" }) => small === "below");
  return (
    <table className="w-full text-left">
      <caption className="sr-only">{caption}</caption>
      <thead className="sr-only text-muted text-small sm:not-sr-only">
        <tr className="sm:border-line sm:border-b">
          {columns.map((column, index) => (
            <th key={column.label} scope="col" className={`${cellClass(column, index)} py-2 font-medium`}>
              {column.label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={rowKey(row)} className="border-line border-b align-baseline last:border-b-0">
            <th scope="row" className={`${cellClass(name, 0)} wrap-anywhere py-2.5 font-normal`}>
              {name.cell(row)}
              {below.length > 0 ? (
                <span className="mt-1 flex flex-wrap gap-x-3 text-muted text-small tabular-nums sm:hidden">
                  {below.map((column) => (
                    <span key={column.label}>
                      {column.label} {column.cell(row)}
                    </span>
                  ))}
                </span>
              ) : null}
            </th>
            {others.map((column, index) => (
              <td key={column.label} className={`${cellClass(column, index + 1)} py-2.5`}>
                {column.cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function cellClass({ numeric, small }: DataColumn<never>, index: number): string {
  const always = index === 0 || small === "aside";
  return [
    index === 0 ? "" : "pl-4",
    numeric ? "whitespace-nowrap text-right tabular-nums" : "",
    small === "aside" ? "text-right" : "",
    small === "aside" && !numeric ? "sm:text-left" : "",
    always ? "" : "hidden sm:table-cell",
  ]
    .filter(Boolean)
    .join(" ");
}
