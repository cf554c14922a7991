import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { GrantsCard, ModelState, RoutesCard, SettingsCard } from "../../admin/model-card.tsx";
import { ModelTable } from "../../admin/model-table.tsx";
import { listModels, requireModel } from "../../admin/models.ts";
import { PriceCard } from "../../admin/price-card.tsx";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { SearchCard } from "../../admin/search-card.tsx";
import { searchTerm } from "../../http/search-params.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const meta = pageTitle("Models · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const { searchParams } = new URL(request.url);
  const id = searchParams.get("model");
  const term = searchTerm(request);
  const listed = { models: [], nextCursor: null };
  return {
    one: id === null ? null : await requireModel(context, id),
    ...(id === null ? await listModels(context, { term, cursor: searchParams.get("cursor") }) : listed),
    term,
    done: searchParams.has("done"),
  };
}

export default function ConsoleModelsPage() {
  const { one, models, nextCursor, term, done } = useLoaderData<typeof loader>();
  if (one) {
    return (
      <Page title={one.displayName} lead={one.id}>
        {done ? <Notice tone="good">Changes saved. They’re in the audit log.</Notice> : null}
        <ModelState model={one} />
        <SettingsCard model={one} />
        <RoutesCard model={one} />
        <PriceCard model={one} />
        <GrantsCard model={one} />
        <ButtonLink href="/admin/models">All models</ButtonLink>
      </Page>
    );
  }
  return (
    <Page title="Models" lead="All models, and what each one costs.">
      {done ? <Notice tone="good">Model deleted. The change is in the audit log.</Notice> : null}
      <SearchCard title="Find a model" label="Name or ID" term={term} />
      <Card
        title={term ? `Models that match “${term}”` : "All models"}
        lead="USD per million tokens."
        action={<ButtonLink href="/admin/models/new">Add model</ButtonLink>}
      >
        <ModelTable
          models={models}
          empty={term ? "No model matches. Search for part of its name or ID." : "No models yet. Add the first one."}
        />
        <PageNav label="Pages of models" nextCursor={nextCursor} keep={["q"]} />
      </Card>
    </Page>
  );
}
