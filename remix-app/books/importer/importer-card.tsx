import { Fragment } from "react";
import { AccountForm } from "../../ui/account-form.tsx";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { ExactTime, UtcDay } from "../../ui/moment.tsx";
import { Notice } from "../../ui/notice.tsx";
import { automaticImports } from "../book.ts";
import type { CostImporter } from "./cost-importers.ts";

type DayRange = NonNullable<CostImporter["state"]>["missed"][number];

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

function ImporterState({ importer }: { importer: CostImporter }) {
  const { keySetting, isConfigured, state } = importer;
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
      {missed.length > 0 ? <MissedDays importer={importer} missed={missed} /> : null}
    </div>
  );
}

/** The maximum number of ranges of missed days that are listed. */
const maxRanges = 5;

/** Lists days that no import has, with the way to say that they had no costs. */
function MissedDays({ importer: { provider, name }, missed }: { importer: CostImporter; missed: readonly DayRange[] }) {
  const shown = missed.slice(0, maxRanges);
  return (
    <>
      <p className="text-warn">
        {shown.map(({ from, to }, place) => (
          <Fragment key={from}>
            {place > 0 ? ", " : null}
            <UtcDay at={from} />
            {from === to ? null : (
              <>
                {" "}
                to <UtcDay at={to} />
              </>
            )}
          </Fragment>
        ))}
        {missed.length > maxRanges ? " and later days" : null} were not imported, because {name} no longer reports them.
        Import these days from a file.
      </p>
      <AccountForm action={automaticImports}>
        <input type="hidden" name="provider" value={provider} />
        <input type="hidden" name="step" value="confirm_missed" />
        <input type="hidden" name="lastDay" value={shown.at(-1)?.to} />
        <Button variant="secondary" aria-label={`These days of ${name} had no costs`}>
          They had no costs
        </Button>
      </AccountForm>
    </>
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
