import { Credits } from "../../ui/money.tsx";
import type { CreditTotals as Totals } from "./usage.ts";

/** What was used and added in a range, each credit counted once. */
export function CreditTotals({ totals, payer }: { totals: Totals; payer: "workspace" | "member" }) {
  const lines = [
    {
      label: "Billed for runs",
      amount: totals.runCredits,
      note: "Of all members and keys of this workspace",
    },
    {
      label: "Deducted without a run",
      amount: totals.otherDeductions,
      note: payer === "member" ? "From your own balance, or the workspace's" : "Such as corrections by hand",
    },
    { label: "Used in all", amount: totals.usedCredits, note: "The two above", strong: true },
    { label: "Added", amount: totals.addedCredits, note: "Granted, bought or given back" },
    {
      label: "Not metered",
      amount: totals.unmeteredCredits,
      note: "What runs would have cost that nobody is billed for: those of registered apps, and those that ended without a count. Never deducted",
    },
  ];
  return (
    <dl>
      {lines.map(({ label, amount, note, strong }) => (
        <div
          key={label}
          className="grid grid-cols-[1fr_auto] items-baseline gap-x-6 border-line py-2.5 first:pt-0 last:pb-0 not-first:border-t"
        >
          <dt className={strong ? "font-semibold" : "font-medium"}>{label}</dt>
          <dd className={`text-right tabular-nums ${strong ? "font-semibold" : ""}`}>
            <Credits amount={amount} />
          </dd>
          <dd className="col-span-2 text-muted text-small">{note}</dd>
        </div>
      ))}
    </dl>
  );
}
