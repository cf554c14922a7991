import type { ReactNode } from "react";
import { Card } from "../../../ui/card.tsx";
import { DataTable } from "../../../ui/data-table.tsx";
import { columnDecimals, countOf, formatMoney } from "../../../ui/format-amount.ts";
import { UtcDay } from "../../../ui/moment.tsx";
import { Usd } from "../../../ui/money.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { Figures } from "../../figures.tsx";
import { changedDays, type ImportPreview } from "./import-answers.ts";
import { daysInWords } from "./import-facts.ts";

/**
 * Shows what an import adds, corrects and replaces.
 * @param props.children the available actions
 */
export function ImportPreviewCards({ preview, children }: { preview: ImportPreview; children: ReactNode }) {
  const { totalUsd, byCurrency, accountCount, accounts, dates, firstDay, lastDay } = preview;
  const { added, unchanged, corrected, replaced, cleared } = preview;
  const same = changedDays(preview) === 0;
  // A day with several accounts has several totals.
  const unit = accountCount > 1 ? "daily total" : "day";
  const foreign = byCurrency.some(({ currency }) => currency !== "USD");
  const unlisted = corrected.days - corrected.list.length;
  const unlistedAccounts = accountCount - accounts.length;
  const decimals = {
    account: columnDecimals(accounts.map(({ amountUsd }) => amountUsd)),
    from: columnDecimals(corrected.list.map(({ fromUsd }) => fromUsd)),
    to: columnDecimals(corrected.list.map(({ toUsd }) => toUsd)),
  };
  return (
    <>
      <Figures
        figures={[
          {
            label: "Total",
            value: <Usd amount={totalUsd} />,
            note: daysInWords(firstDay, lastDay),
          },
          {
            label: "New",
            value: <Usd amount={added.amountUsd} />,
            note: `${countOf(added.days, unit)}, not imported before`,
          },
          ...(corrected.days > 0
            ? [
                {
                  label: "Corrected",
                  value: <Usd amount={corrected.toUsd} />,
                  note: (
                    <>
                      {countOf(corrected.days, unit)}, previously <Usd amount={corrected.fromUsd} />
                    </>
                  ),
                },
              ]
            : []),
          ...(unchanged.days > 0 ? [{ label: "Already imported", value: countOf(unchanged.days, unit) }] : []),
        ]}
      />
      <Card title="What the file adds up to" lead={`${countOf(dates, "day")} in ${countOf(accountCount, "account")}.`}>
        <div className="space-y-6">
          {foreign ? (
            <DataTable
              caption="Totals by currency"
              columns={[
                { label: "Currency", cell: ({ currency }) => currency },
                {
                  label: "Amount",
                  numeric: true,
                  cell: ({ amount, currency }) => <span title={amount}>{formatMoney({ amount, currency })}</span>,
                },
                {
                  label: "US dollars",
                  numeric: true,
                  small: "aside",
                  cell: ({ amountUsd }) => <Usd amount={amountUsd} />,
                },
              ]}
              rows={byCurrency}
              rowKey={({ currency }) => currency}
              empty={null}
            />
          ) : null}
          <DataTable
            caption="Totals by account"
            columns={[
              { label: "Account", cell: ({ accountId }) => accountId },
              { label: "Days", numeric: true, cell: (account) => account.days.toLocaleString("en") },
              {
                label: "Amount",
                numeric: true,
                small: "aside",
                cell: ({ amountUsd }) => <Usd amount={amountUsd} decimals={decimals.account} />,
              },
            ]}
            rows={accounts}
            rowKey={({ accountId }) => accountId}
            empty={null}
          />
          {unlistedAccounts > 0 ? <p className="text-muted">And {countOf(unlistedAccounts, "account")} more.</p> : null}
        </div>
      </Card>
      <Card title={same ? "Nothing to import" : "What will change"}>
        <div className="space-y-5">
          {same ? <Notice tone="good">Everything in this file has been imported already.</Notice> : null}
          {corrected.list.length > 0 ? (
            <>
              <DataTable
                caption="Corrected days"
                columns={[
                  {
                    label: "Day",
                    cell: ({ day, accountId }) => (
                      <>
                        <UtcDay at={day} /> <span className="text-muted text-small">{accountId}</span>
                      </>
                    ),
                  },
                  {
                    label: "Recorded",
                    numeric: true,
                    cell: ({ fromUsd }) => <Usd amount={fromUsd} decimals={decimals.from} />,
                  },
                  {
                    label: "In this file",
                    numeric: true,
                    small: "aside",
                    cell: ({ fromUsd, toUsd }) => (
                      <>
                        <Usd amount={toUsd} decimals={decimals.to} />
                        {fromUsd === toUsd ? <span className="block text-muted text-small">Same total</span> : null}
                      </>
                    ),
                  },
                ]}
                rows={corrected.list}
                rowKey={({ day, accountId }) => `${day} ${accountId}`}
                empty={null}
              />
              {unlisted > 0 ? <p className="text-muted">And {countOf(unlisted, `more ${unit}`)}.</p> : null}
            </>
          ) : null}
          {same ? null : (
            <ul className="max-w-prose list-disc space-y-1 pl-5">
              {added.days + corrected.days > 0 ? (
                <li>
                  {changesText({ added: added.days, corrected: corrected.days, unit })} A newer file can correct them.
                </li>
              ) : null}
              {cleared.days > 0 ? (
                <li>
                  Sets {countOf(cleared.days, unit)} missing from this file to $0.00, previously{" "}
                  <Usd amount={cleared.amountUsd} />.
                </li>
              ) : null}
              {replaced.records > 0 ? (
                <li>
                  {countOf(replaced.records, "record")} of the same days (<Usd amount={replaced.amountUsd} />) no longer
                  count, because each day’s total replaces them. They’re kept for audit.
                </li>
              ) : null}
              <li>Runs, credits and invoices aren’t affected.</li>
            </ul>
          )}
          {children}
        </div>
      </Card>
    </>
  );
}

function changesText({ added, corrected, unit }: { added: number; corrected: number; unit: string }): string {
  const parts = [
    added > 0 ? `Adds ${unit === "day" ? "the totals of " : ""}${countOf(added, unit)}` : [],
    corrected > 0 ? `${added > 0 ? "corrects" : "Corrects"} ${countOf(corrected, unit)}` : [],
  ].flat();
  return `${parts.join(" and ")}.`;
}
