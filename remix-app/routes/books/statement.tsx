import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { z } from "zod";
import { ReasonField } from "../../admin/change-fields.tsx";
import { reasonSchema } from "../../admin/console-change.ts";
import { auditedChange } from "../../books/audited-change.ts";
import { platformBook } from "../../books/book.ts";
import { requirePlatformBook } from "../../books/require-book.ts";
import { AfterClose } from "../../books/statements/after-close.tsx";
import { ExceptionTable } from "../../books/statements/exception-table.tsx";
import { FiguresTable } from "../../books/statements/figures-table.tsx";
import { closePath, statementPath } from "../../books/statements/paths.ts";
import { reopenMonth, requireStatement } from "../../books/statements/statement.ts";
import { formatExactDateTime, monthText } from "../../http/date-text.ts";
import { readForm } from "../../http/form.ts";
import { takeForm } from "../../session/saved-form.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { FactList } from "../../ui/facts.tsx";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";

export const meta = pageTitle<typeof loader>(
  (data) => `Statement of ${data ? monthText(data.statement.month) : "a month"} · ${platformBook.name}`,
);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const read = await requireStatement(context, { member, id: params.statementId, withRecords: false });
  return { ...read, typedReason: takeForm(context, { request, userId: member.userId }).reason };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const form = await readForm(request, context);
  const parsed = z.object({ reason: reasonSchema }).safeParse(Object.fromEntries(form));
  if (!parsed.success) {
    const typed = String(form.get("reason") ?? "");
    return data({ typed, error: parsed.error.issues[0]?.message }, { status: 400 });
  }
  const id = params.statementId ?? "";
  // A repeated click leads to the same page, which says who reopened the month.
  await reopenMonth(context, { member, id, change: auditedChange(context, form) });
  throw redirect(statementPath(id), 303);
}

export default function StatementPage() {
  const { statement, figures, exceptions, after, typedReason } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  const { id, month, version, reopened } = statement;
  const name = monthText(month);
  return (
    <StudioPage
      title={`Statement of ${name}`}
      lead="The platform’s costs as they were when the month was closed. All amounts are in US dollars."
      actions={
        <>
          <ButtonLink href={`${platformBook.reconciliation}?month=${month}`}>Books</ButtonLink>
          <ButtonLink href={`${statementPath(id)}/statement.csv`}>Download CSV</ButtonLink>
          <ButtonLink href={`${statementPath(id)}/statement.json`}>Download JSON</ButtonLink>
          <ButtonLink href={`${platformBook.reconciliation}.focus.csv?month=${month}`}>Download FOCUS</ButtonLink>
        </>
      }
    >
      {reopened ? (
        <Notice tone="warn">
          {reopened.by ?? "A deleted account"} reopened this month at {formatExactDateTime(reopened.at)}:{" "}
          {reopened.reason}.{" "}
          <a className="link" href={closePath(month)}>
            Close {name} again
          </a>{" "}
          or see its latest statement.
        </Notice>
      ) : null}
      <Card title="Closed">
        <FactList
          facts={[
            ["Month", `${name}, UTC`],
            ["Version", String(version)],
            ["Closed by", statement.closedBy ?? "A deleted account"],
            ["Closed at", formatExactDateTime(statement.closedAt)],
            ["SHA-256 of the records", statement.sha256],
            ["Statement ID", id],
          ]}
        />
      </Card>
      <Card title="Figures" lead="By provider and account, from the records that counted.">
        <FiguresTable
          caption={`Figures of ${name}`}
          rows={figures}
          empty="Nothing was metered, imported or invoiced in this month."
        />
      </Card>
      <Card title="Exceptions" lead="What was open when the month was closed, and why it was closed nevertheless.">
        <ExceptionTable exceptions={exceptions} />
      </Card>
      {after ? <AfterClose after={after} statement={statement} /> : null}
      {reopened ? null : (
        <div className="print:hidden">
          <Card
            title={`Reopen ${name}`}
            lead="This statement stays as it is and is marked as reopened. People can then enter invoices and import files again, and close the month with a new version."
          >
            <AccountForm noValidate className="max-w-120 space-y-4">
              <ErrorSummary id="reopen-error" fields={{ reason: failed?.error }} />
              <ReasonField defaultValue={failed?.typed ?? typedReason} error={failed?.error} />
              <Button>Reopen {name}</Button>
            </AccountForm>
          </Card>
        </div>
      )}
    </StudioPage>
  );
}
