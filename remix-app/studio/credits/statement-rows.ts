import type { CsvColumn } from "../../http/csv.ts";
import type { CreditStatement } from "./statement.ts";
import { statementLines } from "./statement-lines.ts";

interface Row {
  row: "balance" | "change" | "use" | "paid_by_members";
  payer?: string;
  label?: string;
  time?: string;
  reference?: string | null;
  model?: string | null;
  memberId?: string | null;
  member?: string | null;
  requests?: number;
  credits: string;
}

export const creditStatementColumns: readonly CsvColumn<Row>[] = [
  { name: "row", value: ({ row }) => row },
  { name: "payer", value: ({ payer }) => payer },
  { name: "label", value: ({ label }) => label },
  { name: "time", value: ({ time }) => time },
  { name: "reference", value: ({ reference }) => reference },
  { name: "model", value: ({ model }) => model },
  { name: "member_id", value: ({ memberId }) => memberId },
  { name: "member", value: ({ member }) => member },
  { name: "requests", value: ({ requests }) => requests },
  { name: "credits", value: ({ credits }) => credits },
];

/** Returns the rows of a statement's CSV: for each account its lines, the changes without a run, and the use. */
export function creditStatementRows({ accounts, paidByMembers }: CreditStatement): Row[] {
  return [
    ...accounts.flatMap((account): Row[] => {
      const { payer, changes, use } = account;
      return [
        ...statementLines(account).map(({ label, credits }) => ({ row: "balance" as const, payer, label, credits })),
        ...changes.map(({ at, kind, description, reference, credits }) => ({
          row: "change" as const,
          payer,
          label: description ?? kind,
          time: at,
          reference,
          credits,
        })),
        ...use.map((each) => ({ row: "use" as const, payer, ...each })),
      ];
    }),
    ...(paidByMembers === "0" ? [] : [{ row: "paid_by_members" as const, credits: paidByMembers }]),
  ];
}
