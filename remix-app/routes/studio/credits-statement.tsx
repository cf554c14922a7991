import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { formatExactDateTime, monthText } from "../../http/date-text.ts";
import { readMonth } from "../../studio/costs/month.ts";
import { MonthPicker } from "../../studio/costs/month-picker.tsx";
import { readCreditStatement } from "../../studio/credits/statement.ts";
import { CreditStatementCards } from "../../studio/credits/statement-cards.tsx";
import { rangeStatus } from "../../studio/range.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Credits } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Statement · ${data?.workspace.name ?? "Workspace"}`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member: reader } = await requirePermission(context, {
    request,
    params,
    permission: "use_ai_studio",
  });
  const choice = readMonth(new URL(request.url), { now: new Date() });
  const statement = await readCreditStatement(context, { reader, month: choice.month });
  return data({ workspace, choice, statement }, rangeStatus(choice));
}

export default function CreditStatementPage() {
  const { workspace, choice, statement } = useLoaderData<typeof loader>();
  const { accounts, paidByMembers, isEnded, to } = statement;
  const credits = `/workspaces/${workspace.id}/ai/credits`;
  const file = (extension: string) => `${credits}/statement.${extension}?month=${choice.month}`;
  return (
    <StudioPage
      title={`Statement of ${monthText(choice.month)}`}
      lead={`Credits of ${workspace.name}, from the opening to the closing balance. Days are in UTC.`}
      actions={
        <>
          <ButtonLink href={credits}>Credits</ButtonLink>
          <ButtonLink href={file("csv")}>Download CSV</ButtonLink>
          <ButtonLink href={file("json")}>Download JSON</ButtonLink>
        </>
      }
    >
      <MonthPicker choice={choice} />
      {isEnded ? null : <Notice>Month to date: until {formatExactDateTime(to)}.</Notice>}
      {accounts.length === 0 ? (
        <Notice>The balance starts with the first request. There is nothing to show yet.</Notice>
      ) : null}
      {accounts.map((account) => (
        <CreditStatementCards key={account.payer} account={account} isOwn={account.payer === "member"} />
      ))}
      {paidByMembers === "0" ? null : (
        <Notice>
          Members also paid <Credits amount={paidByMembers} /> credits for runs of this workspace from balances that
          aren’t shown here.
        </Notice>
      )}
    </StudioPage>
  );
}
