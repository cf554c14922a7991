import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { platformBook, providerPage } from "../../books/book.ts";
import { costProviders, costSources } from "../../books/importer/cost-sources.ts";
import { FailedReport } from "../../books/importer/request-page.ts";
import { readBookDay } from "../../books/matching/book-day.ts";
import { fetchGenerations } from "../../books/matching/fetch-generations.ts";
import { GenerationCard } from "../../books/matching/generation-card.tsx";
import { HourCards } from "../../books/matching/hour-cards.tsx";
import { compareHours, markGatewayKey, readChosenLine, requestHours } from "../../books/matching/hours.ts";
import { dayPage } from "../../books/matching/matching.ts";
import { readGenerations } from "../../books/matching/read-generations.ts";
import { requirePlatformBook } from "../../books/require-book.ts";
import { formatDay, monthText } from "../../http/date-text.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>(
  (data) => `${data ? `${data.source.name} on ${formatDay(data.day)}` : "A provider’s day"} · ${platformBook.name}`,
);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const { month, provider, day, matching } = readBookDay(params, context);
  const about = costProviders.find(({ id }) => id === provider);
  const source = {
    name: about?.name ?? provider,
    keySetting: about?.settings.key ?? "",
    isConfigured: costSources(context.env).some((each) => each.provider.id === provider),
  };
  const page = { month, provider, day, source };
  const url = new URL(request.url);
  switch (matching) {
    case "hours": {
      const line = readChosenLine(url, day);
      const compared = await compareHours(context, { member, provider, day, line });
      return { ...page, matching, compared, skippedCalls: line?.skip ?? 0 };
    }
    case "generations": {
      const comparison = await readGenerations(context, { reader: member, day, url });
      return { ...page, matching, comparison };
    }
  }
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const { provider, day, matching } = readBookDay(params, context);
  const form = await readForm(request, context);
  if (matching === "generations") return { outcome: await fetchGenerations(context, { reader: member, day, form }) };
  const page = dayPage({ provider, day });
  if (form.has("keyId")) {
    await markGatewayKey(context, { member, provider, form });
    throw redirect(`${page}#keys`, 303);
  }
  const source = costSources(context.env).find((each) => each.provider.id === provider);
  if (!source) {
    throw problem("INVALID_REQUEST", {
      requestId: context.requestId,
      detail: "This server has no key of the provider.",
    });
  }
  try {
    await requestHours(context, { source, member, provider, day });
  } catch (error) {
    if (error instanceof FailedReport) return data({ failure: error.message }, { status: 503 });
    throw error;
  }
  throw redirect(page, 303);
}

export default function BookDayPage() {
  const page = useLoaderData<typeof loader>();
  const { month, provider, day, source } = page;
  const answer = useActionData<typeof action>();
  return (
    <Page
      title={`${source.name} on ${formatDay(day)}`}
      lead="Find the calls behind a difference between this provider’s costs and ours. The day is in UTC."
      actions={<ButtonLink href={providerPage({ month, provider })}>{monthText(month)}</ButtonLink>}
    >
      {answer && "failure" in answer ? <Notice tone="warn">{answer.failure} Nothing was changed.</Notice> : null}
      {page.matching === "hours" ? (
        <HourCards
          compared={page.compared}
          skippedCalls={page.skippedCalls}
          source={source}
          file={`${dayPage({ provider, day })}/hours.csv`}
        />
      ) : (
        <GenerationCard comparison={page.comparison} outcome={answer && "outcome" in answer ? answer.outcome : null} />
      )}
    </Page>
  );
}
