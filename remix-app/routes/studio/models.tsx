import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { searchTerm } from "../../http/search-params.ts";
import { kindLabels } from "../../studio/model-choice/model-picker.tsx";
import { ModelList } from "../../studio/models/model-list.tsx";
import { findModels, listProviders, readModelFilter, readModels } from "../../studio/models/models.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Button } from "../../ui/button.tsx";
import { Panel } from "../../ui/card.tsx";
import { Select } from "../../ui/field.tsx";
import { countOf } from "../../ui/format-amount.ts";
import { Notice } from "../../ui/notice.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { SearchField } from "../../ui/search-form.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Models · ${data?.workspace.name ?? "Workspace"}`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const models = await readModels(context, { workspaceId: workspace.id, signal: request.signal });
  const url = new URL(request.url);
  const query = { term: searchTerm(request), ...readModelFilter(url) };
  const cursor = url.searchParams.get("cursor") ?? "";
  const page = /^\d{1,4}$/.test(cursor) ? Number(cursor) : 0;
  return {
    workspace,
    query,
    found: models && findModels(models, { ...query, page }),
    isEmpty: models?.length === 0,
    providers: listProviders(models ?? []),
    // The same for all models, because it is the plan's.
    creditsPerUsd: models?.[0]?.creditsPerUsd ?? null,
  };
}

export default function ModelsPage() {
  const { workspace, query, found, isEmpty, providers, creditsPerUsd } = useLoaderData<typeof loader>();
  return (
    <StudioPage
      title="Models"
      lead={[
        "The models that you can call in this workspace.",
        providers.length > 0 ? "Prices are for a million tokens, as the provider charges them." : null,
        creditsPerUsd === null ? null : "Below each price are the credits that it takes from the balance.",
        found && found.count > 0 && providers.length === 0 ? "The AI policy hides what providers charge." : null,
      ]
        .filter(Boolean)
        .join(" ")}
    >
      {found === null ? (
        <Notice tone="warn">
          We couldn’t load the models, because the gateway didn’t answer. Try reloading this page in a moment. If that
          doesn’t help, contact an administrator.
        </Notice>
      ) : isEmpty ? (
        <Notice>This workspace can’t use any model. Its plan or AI policy doesn’t allow one. Ask an owner.</Notice>
      ) : (
        <>
          <search>
            <form method="get" className="flex flex-wrap items-end gap-3">
              <SearchField name="q" label="Find a model" term={query.term} />
              <Select name="kind" label="Kind" defaultValue={query.kind ?? ""} className="min-w-32">
                <option value="">All kinds</option>
                {Object.entries(kindLabels).map(([kind, label]) => (
                  <option key={kind} value={kind}>
                    {label}
                  </option>
                ))}
              </Select>
              {providers.length > 0 ? (
                <Select name="provider" label="Provider" defaultValue={query.provider ?? ""} className="min-w-32">
                  <option value="">All providers</option>
                  {providers.map((provider) => (
                    <option key={provider}>{provider}</option>
                  ))}
                </Select>
              ) : null}
              <Button variant="secondary">Search</Button>
            </form>
          </search>
          {found.shown.length === 0 ? (
            <Notice>No model matches. Search for part of a name or ID, or choose all kinds and providers.</Notice>
          ) : (
            <Panel>
              <p className="sr-only">{countOf(found.count, "model")} found</p>
              <ModelList models={found.shown} workspaceId={workspace.id} />
              <PageNav label="Pages of models" nextCursor={found.nextCursor} keep={["q", "kind", "provider"]} />
            </Panel>
          )}
        </>
      )}
    </StudioPage>
  );
}
