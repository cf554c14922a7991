import { Button, ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { FactList } from "../ui/facts.tsx";
import { Field } from "../ui/field.tsx";
import { Notice } from "../ui/notice.tsx";
import { multiplierText } from "./model-preview.ts";
import { setupPath, stepPath } from "./model-scope.ts";
import { type ConsoleModel, type ConsoleRoute, listModelFaults, maxListedGrants } from "./models.ts";

/** Says why callers can't use the model, if they can't. */
export function ModelState({ model }: { model: ConsoleModel }) {
  const priceFaults = model.hasRoute || model.hasPrice ? [] : ["No price"];
  const faults = [...(model.enabled ? [] : ["Disabled"]), ...listModelFaults(model), ...priceFaults];
  if (faults.length === 0) return null;
  return (
    <Notice tone="warn">
      <p>Callers get 404 until you fix this:</p>
      <ul className="list-disc pl-5">
        {faults.map((fault) => (
          <li key={fault}>{fault}</li>
        ))}
      </ul>
    </Notice>
  );
}

export function SettingsCard({ model }: { model: ConsoleModel }) {
  const { id, kind, ownedBy, enabled, contextWindow, outputLimit, defaultOutputLimit, voices } = model;
  const tokens = (count: number | null) => (count === null ? "unknown" : `${count.toLocaleString("en")} tokens`);
  return (
    <Card
      title="Settings"
      lead="The ID and kind can’t be changed. A model that was ever enabled can’t be deleted, because runs refer to it. Disable it instead."
      action={
        <div className="flex flex-wrap gap-3">
          <ButtonLink href={setupPath({ model: id })}>Edit</ButtonLink>
          {enabled ? (
            <ButtonLink href={stepPath("disable", { model: id })} variant="danger">
              Disable
            </ButtonLink>
          ) : null}
          {model.canDelete ? (
            <ButtonLink href={stepPath("delete", { model: id })} variant="danger">
              Delete
            </ButtonLink>
          ) : null}
        </div>
      }
    >
      <FactList
        facts={[
          ["State", enabled ? "enabled" : "disabled"],
          ["Kind", model.isDefault ? `${kind} (default ${kind} model)` : kind],
          ["Owned by", ownedBy],
          ["Context window", tokens(contextWindow)],
          ["Output limit", tokens(outputLimit)],
          ...(kind === "chat"
            ? [
                [
                  "Default output limit",
                  defaultOutputLimit === null ? "platform’s" : tokens(defaultOutputLimit),
                ] as const,
              ]
            : []),
          ...(voices.length > 0 ? [["Voices", voices.join(", ")] as const] : []),
          ["Offered to workspaces", model.studioDefault ? "yes" : "no"],
        ]}
      />
    </Card>
  );
}

export function RoutesCard({ model: { routes, prices } }: { model: ConsoleModel }) {
  const priced = new Set(prices.filter(({ current }) => current).map(({ providerId }) => providerId));
  return (
    <Card
      title="Routes"
      lead="Routes are tried in order. Edit the model to change them, test them, and see whether their providers are configured."
    >
      <DataTable
        caption="Routes"
        rows={routes}
        rowKey={({ position }) => String(position)}
        empty="No routes, so callers get 404. Edit the model to add one."
        columns={[
          {
            label: "Route",
            cell: ({ position, providerId, providerModel }) => (
              <span className="break-all">
                {position}. {providerId}, {providerModel}
              </span>
            ),
          },
          {
            label: "State",
            small: "aside",
            cell: ({ enabled, providerId }) => {
              if (!enabled) return <span className="text-muted">Disabled</span>;
              return priced.has(providerId) ? "Ready" : <span className="text-bad">No price: skipped</span>;
            },
          },
          { label: "Billing and timeouts", cell: (route) => routeRules(route) },
        ]}
      />
    </Card>
  );
}

function routeRules(route: ConsoleRoute): string {
  const { firstByteSeconds, idleSeconds, totalSeconds } = route;
  const limits = [
    firstByteSeconds && `first byte ${firstByteSeconds} s`,
    idleSeconds && `between chunks ${idleSeconds} s`,
    totalSeconds && `total ${totalSeconds} s`,
  ];
  const rules = [
    route.trustsStatedCost && "cost as reported by the provider",
    multiplierText(route.tierMultipliers),
    ...limits,
  ];
  return rules.filter(Boolean).join(", ") || "–";
}

export function GrantsCard({ model: { id, plans, workspaces } }: { model: ConsoleModel }) {
  const granted = [
    ...plans
      .filter((plan) => plan.granted)
      .map((plan) => ({ ...plan, href: stepPath("withdraw", { model: id, plan: plan.id }), kind: "plan" })),
    ...workspaces.map((workspace) => ({
      ...workspace,
      href: stepPath("withdraw", { model: id, workspace: workspace.id }),
      kind: "workspace",
    })),
  ];
  return (
    <Card
      title="Grants"
      lead="The plans and individual workspaces that can use this model. Edit the model to grant it to plans."
      action={<ButtonLink href={stepPath("grant", { model: id })}>Grant to workspace</ButtonLink>}
    >
      <DataTable
        caption="Grants"
        rows={granted}
        rowKey={({ href }) => href}
        empty="No grants, so callers get 404. Edit the model to grant it to a plan, or grant it to a workspace."
        columns={[
          {
            label: "Granted to",
            cell: (to) => (
              <>
                <bdi>{to.name}</bdi>
                <span className="block break-all font-mono text-muted text-small">{to.id}</span>
              </>
            ),
          },
          { label: "Kind", small: "aside", cell: ({ kind }) => kind },
          {
            label: "Change",
            cell: ({ href, name }) => (
              <a href={href} className="link">
                Withdraw<span className="sr-only"> from {name}</span>
              </a>
            ),
          },
        ]}
      />
      {workspaces.length < maxListedGrants ? null : (
        <form action="/admin/models/withdraw" className="mt-4 flex flex-wrap items-end gap-3">
          <input type="hidden" name="model" value={id} />
          <Field
            name="workspace"
            label="Workspace ID"
            hint={`Only the first ${maxListedGrants} workspaces by name are listed.`}
            required
          />
          <Button variant="secondary">Withdraw from another workspace</Button>
        </form>
      )}
    </Card>
  );
}
