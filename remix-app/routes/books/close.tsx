import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { platformBook } from "../../books/book.ts";
import { requirePlatformBook } from "../../books/require-book.ts";
import { closeMonth, readCloseChecklist } from "../../books/statements/close-month.ts";
import { FiguresTable } from "../../books/statements/figures-table.tsx";
import { earlierReasons, groupPoints, openPointsOf } from "../../books/statements/open-points.ts";
import { statementPath } from "../../books/statements/paths.ts";
import { ReasonFields } from "../../books/statements/reason-fields.tsx";
import { maxReasonFields, readReasons, reasonErrors } from "../../books/statements/reason-form.ts";
import { formatDay, monthText } from "../../http/date-text.ts";
import { readForm } from "../../http/form.ts";
import { takeForm } from "../../session/saved-form.ts";
import { monthWindow, readFileMonth, readMonth } from "../../studio/costs/month.ts";
import { MonthPicker } from "../../studio/costs/month-picker.tsx";
import { rangeStatus } from "../../studio/range.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { countOf } from "../../ui/format-amount.ts";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";

export const meta = pageTitle<typeof loader>(
  (data) => `Close ${data ? monthText(data.choice.month) : "a month"} · ${platformBook.name}`,
);

export async function loader({ request, context }: LoaderFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const choice = readMonth(new URL(request.url), { now: new Date() });
  const checklist = await readCloseChecklist(context, { member, month: choice.month });
  if (checklist.outcome === "already_closed") throw redirect(statementPath(checklist.id));
  // Reasons that were sent after the step-up expired are shown again, unless they are too long to be saved.
  const typed = takeForm(context, { request, userId: member.userId });
  return data({ choice, typed, checklist: checklist.outcome === "listed" ? checklist : null }, rangeStatus(choice));
}

export async function action({ request, context }: ActionFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const form = await readForm(request, context, { maxFields: maxReasonFields });
  const { month } = readFileMonth(request, context);
  const typed = Object.fromEntries(
    [...form].filter((field): field is [string, string] => typeof field[1] === "string"),
  );
  const reasons = readReasons(typed);
  const change = {
    reason: `Closed ${monthText(month)} with ${countOf(reasons.length, "reason")} for open points`,
    requestId: context.requestId,
    ip: context.clientAddress,
  };
  const answer = await closeMonth(context, { member, month, state: String(form.get("state") ?? ""), reasons, change });
  if ("id" in answer) throw redirect(statementPath(answer.id), 303);
  return data({ failure: answer.outcome, typed }, { status: answer.outcome === "changed" ? 409 : 400 });
}

export default function CloseMonthPage() {
  const { choice, checklist, ...loaded } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  const month = monthText(choice.month);
  const groups = groupPoints(openPointsOf(checklist?.figures ?? []));
  const typed = readReasons(failed?.typed ?? loaded.typed);
  const reasons = typed.length > 0 ? typed : earlierReasons(groups, checklist?.earlier ?? []);
  const errors = failed?.failure === "reasons_missing" ? reasonErrors(groups, reasons) : {};
  return (
    <StudioPage
      title={`Close ${month}`}
      lead="A closed month keeps its figures on a statement. People can’t change the month’s costs and invoices until it’s reopened."
      actions={<ButtonLink href={`${platformBook.reconciliation}?month=${choice.month}`}>Books</ButtonLink>}
    >
      <MonthPicker choice={choice} />
      {failed?.failure === "changed" ? (
        <Notice tone="warn">
          The month’s records changed after you opened this page. Nothing was closed. Check the figures again.
        </Notice>
      ) : null}
      {checklist === null ? (
        <Notice>
          {month} hasn’t ended. It can be closed from {formatDay(monthWindow(choice.month).to)}, 00:00 UTC.
        </Notice>
      ) : (
        <>
          <Card
            title="Figures"
            lead="What the statement will keep, by provider and account. All amounts are in US dollars."
          >
            <FiguresTable
              caption={`Figures of ${month}`}
              rows={checklist.figures}
              empty="Nothing was metered, imported or invoiced in this month."
            />
          </Card>
          <Card
            title="Open points"
            lead={
              groups.length === 0
                ? "Nothing is open: all amounts agree."
                : "Resolve these points first, or give a reason for each. The statement lists them as exceptions."
            }
          >
            <AccountForm noValidate className="space-y-5">
              <ErrorSummary id="close-error" fields={errors} />
              <input type="hidden" name="state" value={checklist.state} />
              <ReasonFields groups={groups} month={choice.month} reasons={reasons} errors={errors} />
              {groups.length > 0 ? (
                <p className="max-w-prose text-muted">
                  You entered an authenticator code to get here. Close the month within 10 minutes of that, or long
                  reasons have to be entered again.
                </p>
              ) : null}
              <Button>Close {month}</Button>
            </AccountForm>
          </Card>
        </>
      )}
    </StudioPage>
  );
}
