import type { LoaderFunctionArgs } from "@remix-run/node";
import { requirePlatformBook } from "../../books/require-book.ts";
import { requireStatement } from "../../books/statements/statement.ts";
import { statementColumns, statementFileName, statementRows } from "../../books/statements/statement-files.ts";
import { createCsvResponse } from "../../http/csv.ts";

/** Downloads a statement's figures and exceptions with exact amounts. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const statement = await requireStatement(context, { member, id: params.statementId, withRecords: true });
  return createCsvResponse(statementColumns, { name: statementFileName(statement), pages: [statementRows(statement)] });
}
