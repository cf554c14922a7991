import { platformBook } from "../book.ts";

/** Returns the path of a statement's page. */
export function statementPath(id: string): string {
  return `${platformBook.reconciliation}/statements/${id}`;
}

/** Returns the path of the page that closes a month. Once the month is closed, it leads to its statement. */
export function closePath(month: string): string {
  return `${platformBook.reconciliation}/close?month=${month}`;
}
