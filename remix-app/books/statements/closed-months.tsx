import { monthText } from "../../http/date-text.ts";
import { Notice } from "../../ui/notice.tsx";
import { closePath } from "./paths.ts";

/** Says that a change was refused because it would change closed months, and leads to their statements. */
export function ClosedMonths({ months }: { months: readonly string[] }) {
  return (
    <Notice tone="warn">
      {months.map((month) => (
        <p key={month}>
          {monthText(month)} is closed.{" "}
          <a className="link" href={closePath(month)}>
            Reopen it
          </a>{" "}
          on its statement.
        </p>
      ))}
      <p>Nothing was stored.</p>
    </Notice>
  );
}
