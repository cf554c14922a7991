import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { tagsOf } from "../../api-reference/describe.ts";
import { areas, documentOf, originOf } from "../../api-reference/documents.ts";
import { referenceAreas } from "../../api-reference/navigation.ts";
import { MethodBadge } from "../../api-reference/operation-section.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { ReferencePage } from "../../ui/reference-page.tsx";

export const meta = pageTitle("API reference");

/** `GET /docs/api`: the public overview of the API. */
export function loader({ context }: LoaderFunctionArgs) {
  return {
    areas: referenceAreas(),
    contents: areas.map((area) => {
      const { info, components } = documentOf(area);
      return {
        area,
        title: info.title,
        description: info.description,
        origin: originOf(area, context),
        credentials: Object.entries(components.securitySchemes).map(([name, { description }]) => ({
          name,
          description,
        })),
        tags: tagsOf(documentOf(area)),
      };
    }),
  };
}

export default function ApiReferencePage() {
  const { areas: navigation, contents } = useLoaderData<typeof loader>();
  return (
    <ReferencePage
      title="API reference"
      lead="Every endpoint of the platform and the AI gateway, generated from the schemas that the servers use."
      areas={navigation}
      current="/docs/api"
    >
      {contents.map(({ area, title, description, origin, credentials, tags }) => (
        <Card
          key={area}
          id={area}
          title={title}
          lead={description}
          action={
            <a href={`/docs/api/${area}.json`} className="link font-medium">
              OpenAPI 3.1
            </a>
          }
        >
          <div className="space-y-4">
            <p>
              Served at <code className="break-all font-mono text-small">{origin}</code>
            </p>
            <div className="space-y-1.5">
              <h3 className="font-medium text-muted text-small">Credentials</h3>
              <ul className="space-y-1">
                {credentials.map(({ name, description: what }) => (
                  <li key={name}>
                    <code className="font-mono text-small">{name}</code> <span className="text-muted">{what}</span>
                  </li>
                ))}
              </ul>
            </div>
            {tags.map(({ name, slug, operations }) => (
              <div key={slug} className="space-y-1.5">
                <h3 className="font-medium text-muted text-small">{name}</h3>
                <ul className="space-y-2">
                  {operations.map(({ id, method, path, summary }) => (
                    <li key={id}>
                      <a href={`/docs/api/${area}/${slug}#${id}`} className="link">
                        {summary}
                      </a>
                      <p className="break-all py-0.5 font-mono text-small">
                        <MethodBadge method={method} /> {path}
                      </p>
                    </li>
                  ))}
                </ul>
              </div>
            ))}
          </div>
        </Card>
      ))}
    </ReferencePage>
  );
}
