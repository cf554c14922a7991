import type { LoaderFunctionArgs } from "@remix-run/node";
import { requirePlatformBook } from "../../books/require-book.ts";
import { requireStatement } from "../../books/statements/statement.ts";
import { statementDocument, statementFileName } from "../../books/statements/statement-files.ts";
import { createJsonFile } from "../../http/json-document.ts";

/** Downloads a statement with the lines of its records, whose SHA-256 others can check. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const statement = await requireStatement(context, { member, id: params.statementId, withRecords: true });
  return createJsonFile(statementFileName(statement), statementDocument(statement));
}
