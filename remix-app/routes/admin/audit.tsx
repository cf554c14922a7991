import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { auditActions, isAuditAction } from "../../admin/audit-actions.ts";
import { AuditLines } from "../../admin/audit-lines.tsx";
import { describeEntry, readAuditFilters, readAuditLog, writeAuditFilters } from "../../admin/audit-log.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Field, Select } from "../../ui/field.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Audit log · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const url = new URL(request.url);
  const filters = readAuditFilters(url);
  const cursor = url.searchParams.get("cursor");
  const { lines, nextCursor } = await readAuditLog(context, { filters, cursor });
  const address = writeAuditFilters(filters).toString();
  return { filters, address, entries: lines.map(describeEntry), nextCursor, first: cursor === null };
}

export default function ConsoleAuditPage() {
  const { filters, address, entries, nextCursor, first } = useLoaderData<typeof loader>();
  const text = { autoComplete: "off", autoCapitalize: "none", spellCheck: false, errors: undefined } as const;
  return (
    <Page
      title="Audit log"
      lead="Every change by an admin, with its reason, and every account deleted by its owner. Entries are never removed."
    >
      <Card title="Filters">
        <search>
          <form method="get" className="grid grid-cols-1 gap-4 sm:grid-cols-2 lg:grid-cols-3">
            <Field name="actor" label="Admin" defaultValue={filters.actor} {...text} />
            <Field name="target" label="Name, email, ID or other target" defaultValue={filters.target} {...text} />
            <Select name="action" label="Action" defaultValue={filters.action}>
              <option value="">All actions</option>
              {filters.action === "" || isAuditAction(filters.action) ? null : (
                <option value={filters.action}>Actions “{filters.action}”</option>
              )}
              {Object.entries(auditActions).map(([area, actions]) => (
                <optgroup key={area} label={area}>
                  {Object.entries(actions).map(([action, label]) => (
                    <option key={action} value={action}>
                      {label}
                    </option>
                  ))}
                </optgroup>
              ))}
            </Select>
            <Field name="from" type="date" label="From (UTC)" defaultValue={filters.from} {...text} />
            <Field name="to" type="date" label="To (UTC)" defaultValue={filters.to} {...text} />
            <div className="flex flex-wrap items-end gap-3">
              <Button>Filter</Button>
              <ButtonLink href={`/admin/audit.csv?${address}`}>Download CSV</ButtonLink>
            </div>
          </form>
        </search>
      </Card>
      <Card title={first ? "Entries" : "Earlier entries"}>
        {entries.length > 0 ? (
          <AuditLines entries={entries} />
        ) : (
          <p className="text-muted">{address || !first ? "No entries match these filters." : "No entries yet."}</p>
        )}
      </Card>
      <nav aria-label="Pages" className="flex flex-wrap gap-3 empty:hidden">
        {first ? null : <ButtonLink href={`/admin/audit?${address}`}>Newest</ButtonLink>}
        {nextCursor ? (
          <ButtonLink href={`/admin/audit?${address}&${new URLSearchParams({ cursor: nextCursor })}`}>
            Earlier
          </ButtonLink>
        ) : null}
      </nav>
    </Page>
  );
}
