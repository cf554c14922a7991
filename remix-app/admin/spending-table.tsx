import { useLocation } from "@remix-run/react";
import { formatDay } from "../http/date-text.ts";
import { searchWith } from "../studio/range.ts";
import { EmailAddress } from "../ui/address.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { columnDecimals, formatCount } from "../ui/format-amount.ts";
import { Credits, Usd } from "../ui/money.tsx";
import { useSite } from "../ui/site.ts";
import type { Spender, SpendingOwner, SpendingSort } from "./spending.ts";

/** The orders of the list, as in the URL. */
const orders = [
  { value: "cost", label: "Cost" },
  { value: "credits", label: "Credits" },
  { value: "runs", label: "Runs" },
  { value: "failed", label: "Failed" },
  { value: "balance", label: "Balance" },
] as const satisfies readonly { value: SpendingSort; label: string }[];

/** Lists workspaces or accounts with what they spent. The headings sort the list. */
export function SpendingTable(props: { spenders: readonly Spender[]; by: SpendingOwner; sort: SpendingSort }) {
  const { spenders, by, sort } = props;
  const { search } = useLocation();
  const hrefOf = (order: SpendingSort) => searchWith(search, { sort: order === "cost" ? "" : order });
  const sortBy = (order: SpendingSort) => ({ href: hrefOf(order), isSorted: order === sort });
  const decimals = {
    cost: columnDecimals(spenders.map(({ costUsd }) => costUsd)),
    credits: columnDecimals(spenders.map(({ billedCredits }) => billedCredits)),
    balance: columnDecimals(spenders.map(({ balance }) => balance)),
  };
  return (
    <>
      {/* Rows that are cards have no headings to sort by. */}
      {spenders.length > 0 ? (
        <nav aria-label="Sort by" className="mb-3 flex flex-wrap items-center gap-2 @[58rem]:hidden print:hidden">
          <span aria-hidden="true" className="text-muted">
            Sort by
          </span>
          {orders.map(({ value, label }) => (
            <a key={value} href={hrefOf(value)} aria-current={value === sort ? "true" : undefined} className="choice">
              {label}
            </a>
          ))}
        </nav>
      ) : null}
      <DataTable
        caption={by === "account" ? "Accounts by spending" : "Workspaces by spending"}
        rows={spenders}
        rowKey={({ id }) => id ?? ""}
        empty="No runs this month. Choose another month."
        from="lg"
        columns={[
          {
            label: by === "account" ? "Account" : "Workspace",
            cell: (spender) => <SpenderName spender={spender} by={by} />,
          },
          {
            label: "Cost",
            numeric: true,
            small: "aside",
            sort: sortBy("cost"),
            cell: ({ costUsd }) => <Usd amount={costUsd} decimals={decimals.cost} />,
          },
          {
            label: "Credits",
            numeric: true,
            sort: sortBy("credits"),
            cell: ({ billedCredits }) => <Credits amount={billedCredits} decimals={decimals.credits} />,
          },
          { label: "Runs", numeric: true, sort: sortBy("runs"), cell: ({ requests }) => formatCount(requests) },
          { label: "Failed", numeric: true, sort: sortBy("failed"), cell: ({ failed }) => formatCount(failed) },
          {
            label: "Balance",
            numeric: true,
            sort: sortBy("balance"),
            cell: ({ balance }) =>
              balance === null ? (
                <span className="text-muted">None</span>
              ) : (
                <Credits amount={balance} decimals={decimals.balance} />
              ),
          },
        ]}
      />
    </>
  );
}

function SpenderName({ spender, by }: { spender: Spender; by: SpendingOwner }) {
  const { id, name, email, plan, isDeleted, lastDay } = spender;
  const runs = lastDay ? `Last run on ${formatDay(lastDay)}` : "No runs this month";
  return (
    <>
      <span className="font-medium">
        <SpenderLink spender={spender} by={by} />
      </span>
      {email && name ? (
        <span className="block text-muted text-small">
          <EmailAddress>{email}</EmailAddress>
        </span>
      ) : null}
      {isDeleted ? <span className="block break-all font-mono text-muted text-small">{id}</span> : null}
      <span className="block text-muted text-small">{plan ? `${plan} plan · ${runs}` : runs}</span>
    </>
  );
}

/** Names a workspace or account, and links to its page for people who may open that page. */
function SpenderLink({ spender: { id, name, email, isDeleted }, by }: { spender: Spender; by: SpendingOwner }) {
  const isAdmin = useSite()?.user?.consoleRole === "admin";
  if (id === null) return "No account";
  if (isDeleted) return `Deleted ${by}${name ? `: ${name}` : ""}`;
  const label = name ?? email ?? id;
  if (!isAdmin) return <span className="wrap-anywhere">{label}</span>;
  return (
    <a className="link wrap-anywhere" href={by === "account" ? `/admin/users/${id}` : `/admin/workspaces/${id}`}>
      {label}
    </a>
  );
}
