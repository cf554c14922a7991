import { AccountForm } from "../../ui/account-form.tsx";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { ExactTime, UtcDay } from "../../ui/moment.tsx";
import { Notice } from "../../ui/notice.tsx";
import { automaticImports } from "../book.ts";
import type { CostImporter } from "./cost-importers.ts";

/** Shows how far each provider's costs were imported automatically. @param props.requested the provider just requested */
export function ImporterCard({
  importers,
  requested,
}: {
  importers: readonly CostImporter[];
  requested: string | null;
}) {
  const name = importers.find(({ provider }) => provider === requested)?.name;
  return (
    <Card
      id="automatic-imports"
      title="Automatic imports"
      lead="Daily costs from the providers’ APIs, by account. Each import reads the last seven days again for corrections."
    >
      {name ? (
        <div className="mb-4">
          <Notice tone="good">Import from {name} requested. It begins within a minute.</Notice>
        </div>
      ) : null}
      <DataTable
        caption="Automatic imports by provider"
        rows={importers}
        rowKey={({ provider }) => provider}
        empty={null}
        columns={[
          { label: "Provider", cell: ({ name }) => name },
          {
            label: "Last complete day",
            cell: ({ state }) => (state?.lastCompleteDay ? <UtcDay at={state.lastCompleteDay} /> : "–"),
          },
          { label: "Next attempt", cell: nextAttempt },
          { label: "State", cell: (importer) => <ImporterState importer={importer} /> },
          { label: "Action", cell: (importer) => <ImportNow importer={importer} /> },
        ]}
      />
    </Card>
  );
}

function nextAttempt({ isConfigured, state }: CostImporter) {
  if (!isConfigured) return "–";
  if (state?.isRunning) return "Now";
  return state ? <ExactTime at={state.nextAttemptAt} /> : "Within a minute";
}

function ImporterState({ importer: { name, keySetting, isConfigured, state } }: { importer: CostImporter }) {
  if (!isConfigured) {
    return (
      <>
        Not configured. Set <code className="wrap-anywhere">{keySetting}</code> on the web servers.
      </>
    );
  }
  if (!state) return "Begins with the first import.";
  const { missed, lastError, failures, isOverdue } = state;
  return (
    <div className="wrap-anywhere space-y-1">
      {isOverdue ? (
        <p className="text-warn">No web server has begun the attempt that is due. Check that scheduled tasks run.</p>
      ) : null}
      {lastError ? (
        <p className="text-warn">
          {lastError}
          {failures > 1 ? ` ${failures} attempts failed.` : null}
        </p>
      ) : isOverdue ? null : (
        <p>{state.lastCompleteDay ? "Up to date" : "Begins with the first import."}</p>
      )}
      {missed ? (
        <p className="text-warn">
          <UtcDay at={missed.from} /> to <UtcDay at={missed.to} /> were not imported, because {name} no longer reports
          them. Import these days from a file.
        </p>
      ) : null}
    </div>
  );
}

function ImportNow({ importer: { provider, name, isConfigured, state } }: { importer: CostImporter }) {
  if (!isConfigured || state?.isRunning) return "–";
  return (
    <AccountForm action={automaticImports}>
      <input type="hidden" name="provider" value={provider} />
      <Button variant="secondary" aria-label={`Import now from ${name}`}>
        Import now
      </Button>
    </AccountForm>
  );
}
