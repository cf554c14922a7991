import { DataTable } from "../ui/data-table.tsx";
import { formatPriceUsd } from "./labels.ts";
import { type CatalogueModel, listModelFaults, type ModelPrice } from "./models.ts";

/** Returns the price at the first provider that has one, because that provider usually serves the call. */
function priceOf({ providers, prices }: CatalogueModel): ModelPrice | undefined {
  const current = prices.filter((price) => price.current);
  const first = providers.find((id) => current.some(({ providerId }) => providerId === id));
  return current.find(({ providerId }) => providerId === first);
}

/** Lists the catalogue's models with their state and current prices. */
export function ModelTable({ models, empty }: { models: readonly CatalogueModel[]; empty: string }) {
  return (
    <DataTable
      caption="Models"
      rows={models}
      rowKey={({ id }) => id}
      empty={empty}
      columns={[
        {
          label: "Model",
          cell: ({ id, displayName }) => (
            <>
              <a href={`/admin/models?${new URLSearchParams({ model: id })}`} className="link font-medium">
                {displayName}
              </a>
              <span className="block break-all font-mono text-muted text-small">{id}</span>
            </>
          ),
        },
        { label: "Kind", small: "hidden", cell: ({ kind }) => kind },
        {
          label: "State",
          small: "aside",
          cell: (model) => {
            const [fault] = model.enabled ? listModelFaults(model) : ["Disabled"];
            return fault ? <span className="text-bad">{fault}</span> : "Enabled";
          },
        },
        {
          label: "Input price",
          numeric: true,
          small: "hidden",
          cell: (model) => formatPriceUsd(priceOf(model)?.inputUsd ?? null),
        },
        {
          label: "Output price",
          numeric: true,
          small: "hidden",
          cell: (model) => formatPriceUsd(priceOf(model)?.outputUsd ?? null),
        },
      ]}
    />
  );
}
