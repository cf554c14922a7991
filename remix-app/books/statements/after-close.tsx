import { Card } from "../../ui/card.tsx";
import { FiguresTable } from "./figures-table.tsx";
import type { Statement } from "./statement.ts";

/** Shows by how much a closed month's figures differ now from those of its statement. */
export function AfterClose({
  after,
  statement,
}: Pick<Statement, "statement"> & { after: NonNullable<Statement["after"]> }) {
  const { sha256, differences } = after;
  const isSame = sha256 === statement.sha256;
  return (
    <Card
      title="After the close"
      lead={
        isSame
          ? "The month’s records are the same as at the close."
          : "Runs that settled late, and costs that were imported without a person, since the close. The statement above does not include them. The FOCUS file has the records as they are now."
      }
    >
      {isSame ? null : (
        <FiguresTable
          caption="Differences by provider and account: now less the statement"
          rows={differences}
          empty="Records changed, but the sums of each account did not."
        />
      )}
    </Card>
  );
}
