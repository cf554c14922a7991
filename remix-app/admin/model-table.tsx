import type { CatalogueModel } from "./models.ts";
import { usd } from "./usd.ts";

const cell = "border-line border-t py-2.5 pr-4 align-top last:pr-0";
const head = "pr-4 pb-2 font-medium last:pr-0";
const wide = "hidden sm:table-cell";
const number = "text-right tabular-nums";

/** The catalogue: which models there are, whether they are open, and what they cost now. */
export function ModelTable({ models }: { models: readonly CatalogueModel[] }) {
  return (
    <table className="w-full text-left">
      <thead className="text-muted text-small">
        <tr>
          <th className={head}>Model</th>
          <th className={`${head} ${wide}`}>Kind</th>
          <th className={head}>State</th>
          <th className={`${head} ${wide} ${number}`}>Input now</th>
          <th className={`${head} ${wide} ${number}`}>Output now</th>
        </tr>
      </thead>
      <tbody>
        {models.map(({ id, kind, displayName, enabled, prices }) => {
          const price = prices.find(({ current }) => current);
          return (
            <tr key={id}>
              <td className={cell}>
                <a href={`/admin/models?${new URLSearchParams({ model: id })}`} className="link font-medium">
                  {displayName}
                </a>
                <p className="break-all font-mono text-muted text-small">{id}</p>
              </td>
              <td className={`${cell} ${wide}`}>{kind}</td>
              <td className={cell}>{enabled ? "Enabled" : <span className="text-bad">Disabled</span>}</td>
              <td className={`${cell} ${wide} ${number}`}>{usd(price?.inputUsd ?? null)}</td>
              <td className={`${cell} ${wide} ${number}`}>{usd(price?.outputUsd ?? null)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
