import { addAmounts } from "#shared/decimal.ts";
import { Card } from "../../ui/card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { countOf, formatCount, formatExactCredits } from "../../ui/format-amount.ts";
import { ExactTime } from "../../ui/moment.tsx";
import { Credits } from "../../ui/money.tsx";
import { AmountLines, exactDecimals } from "../usage/credit-totals.tsx";
import type { CreditAccount } from "./statement.ts";
import { statementLines } from "./statement-lines.ts";

/** The maximum number of rows of a list, so that the page stays small. */
const maxRows = 50;

/**
 * Shows the month of a balance: its lines, what was added and deducted, and the use by model and member. Amounts are exact,
 * because the lines add up.
 */
export function CreditStatementCards({ account, isOwn }: { account: CreditAccount; isOwn: boolean }) {
  const lines = statementLines(account);
  const [changes, use] = [account.changes.slice(0, maxRows), account.use.slice(0, maxRows)];
  const decimals = exactDecimals([...lines, ...changes, ...use].map(({ credits }) => credits));
  const creditsCell = ({ credits }: { credits: string }) => <Credits amount={credits} decimals={decimals} />;
  const name = isOwn ? "Your balance" : "The workspace’s balance";
  return (
    <>
      <Card title={name} lead="The lines add up to the closing balance.">
        <AmountLines
          lines={lines.map(({ label, credits: amount, isBalance: strong = false }) => ({ label, amount, strong }))}
        />
      </Card>
      <Card title="Added and deducted" lead="Changes of the balance that were not caused by a run.">
        <DataTable
          caption={`Added and deducted, ${name}`}
          columns={[
            {
              label: "Entry",
              cell: ({ kind, credits, description, reference }) => (
                <>
                  <span className="wrap-anywhere">
                    {description ?? (credits.startsWith("-") ? "Deduction" : kind === "refund" ? "Refund" : "Addition")}
                  </span>
                  {reference ? <span className="block break-all text-muted text-small">{reference}</span> : null}
                </>
              ),
            },
            { label: "When", cell: ({ at }) => <ExactTime at={at} /> },
            { label: "Credits", numeric: true, small: "aside", cell: creditsCell },
          ]}
          rows={changes}
          rowKey={({ id }) => id}
          empty={<p>Nothing was added or deducted in this month.</p>}
        />
        <RestNote rows={account.changes} />
      </Card>
      <Card title="Use by model and member" lead="Credits billed for runs of this workspace.">
        <DataTable
          caption={`Use by model and member, ${name}`}
          columns={[
            {
              label: "Model",
              cell: ({ model, member }) => (
                <>
                  <span className="break-all font-medium">{model ?? "A deleted run"}</span>
                  <bdi className="wrap-anywhere block text-muted text-small">{member ?? "No member"}</bdi>
                </>
              ),
            },
            { label: "Requests", numeric: true, cell: ({ requests }) => formatCount(requests) },
            {
              label: "Credits",
              numeric: true,
              small: "aside",
              cell: creditsCell,
            },
          ]}
          rows={use}
          rowKey={({ model, memberId }) => `${model} ${memberId}`}
          empty={<p>No credits were used in this month.</p>}
        />
        <RestNote rows={account.use} />
      </Card>
    </>
  );
}

/** Says how many rows are not shown, and their sum, so that the page still adds up. */
function RestNote({ rows }: { rows: readonly { credits: string }[] }) {
  const rest = rows.slice(maxRows).map(({ credits }) => credits);
  if (rest.length === 0) return null;
  return (
    <p className="mt-3 text-muted text-small">
      {countOf(rest.length, "more row")} with {formatExactCredits(rest.reduce(addAmounts))} credits in total. The CSV
      has all rows.
    </p>
  );
}
