import { useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { operationsOf, tagsOf } from "../../api-reference/describe.ts";
import { documentOf, isArea, originOf } from "../../api-reference/documents.ts";
import { referenceAreas } from "../../api-reference/navigation.ts";
import { OperationSection } from "../../api-reference/operation-section.tsx";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ReferencePage } from "../../ui/reference-page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.tag ?? "API reference"} · API reference`);

/** `GET /docs/api/{area}/{tag}`: the calls of one tag, for anyone. */
export function loader({ params, context }: LoaderFunctionArgs) {
  const { area, tag: slug = "" } = params;
  if (!isArea(area)) throw problem("NOT_FOUND", { requestId: context.requestId });
  const document = documentOf(area);
  const tag = tagsOf(document).find((one) => one.slug === slug);
  if (!tag) throw problem("NOT_FOUND", { requestId: context.requestId });
  return {
    areas: referenceAreas(),
    current: `/docs/api/${area}/${slug}`,
    title: document.info.title,
    tag: tag.name,
    operations: operationsOf(document, { slug, origin: originOf(area, context) }),
  };
}

export default function ApiReferenceTagPage() {
  const { areas, current, title, tag, operations } = useLoaderData<typeof loader>();
  return (
    <ReferencePage title={tag} lead={title} areas={areas} current={current}>
      {operations.length > 1 ? (
        <ul className="space-y-1">
          {operations.map(({ id, summary }) => (
            <li key={id}>
              <a href={`#${id}`} className="link">
                {summary}
              </a>
            </li>
          ))}
        </ul>
      ) : null}
      {operations.map((operation) => (
        <OperationSection key={operation.id} operation={operation} />
      ))}
    </ReferencePage>
  );
}
