import { Children, type ReactElement } from "react";

const bar = "block rounded-button bg-sunken";
const surface = "rounded-card border border-line bg-surface p-4 sm:px-5";

const range = <span className={`${bar} h-10 w-full max-w-md`} />;
const figures = (
  <span className="grid grid-cols-2 gap-4 lg:grid-cols-4">
    {[0, 1, 2, 3].map((figure) => (
      <span key={figure} className={`${surface} block space-y-2`}>
        <span className={`${bar} h-4 w-20 max-w-full`} />
        <span className={`${bar} h-6 w-24 max-w-full`} />
      </span>
    ))}
  </span>
);
const chart = (
  <span className={`${surface} block`}>
    <span className={`${bar} h-48 w-full`} />
  </span>
);
const form = (
  <span className={`${surface} block space-y-6`}>
    {[0, 1].map((field) => (
      <span key={field} className="block space-y-2">
        <span className={`${bar} h-4 w-24`} />
        <span className={`${bar} h-10 w-full max-w-md`} />
      </span>
    ))}
    <span className={`${bar} h-10 w-32`} />
  </span>
);
const table = <Lines count={8} />;
const card = <Lines count={4} titled />;

/** The outline of each page, by the end of the page's path. All other pages get two cards. */
const contents: readonly (readonly [RegExp, readonly ReactElement[]])[] = [
  [/^\/workspaces\/[^/]+$/, [figures, chart, card]],
  [/\/ai$/, [range, figures, chart, table]],
  [/\/ai\/(credits|costs|reconciliation)$/, [range, figures, card]],
  [/\/ai\/runs$/, [range, table]],
  [/\/ai\/invoices$/, [figures, card]],
  [/\/ai\/(keys|budgets)$/, [table]],
  [/\/ai\/playground$/, [form, table]],
  [/\/(new|settings|profile|roles\/[^/]+)$/, [form, card]],
  [/\/activity$/, [card]],
];

/**
 * Renders the outline of a page being loaded. Assistive technology ignores the outline, because the loading bar already
 * announces the loading.
 */
export function Outline({ path }: { path: string }) {
  const blocks = contents.find(([end]) => end.test(path))?.[1] ?? [card, card];
  return (
    <div aria-hidden="true" className="appearing sticky top-8 space-y-6" data-outline={path}>
      <span className={`${bar} h-[2.1875rem] w-56 max-w-full`} />
      {Children.toArray(blocks)}
    </div>
  );
}

function Lines({ count, titled = false }: { count: number; titled?: boolean }) {
  return (
    <span className={`${surface} block space-y-4`}>
      {titled ? <span className={`${bar} h-5 w-40 max-w-full`} /> : null}
      {Array.from({ length: count }, (_, line) => line).map((line) => (
        <span key={line} className="flex justify-between gap-6">
          <span className={`${bar} h-4 w-1/2`} />
          <span className={`${bar} h-4 w-16`} />
        </span>
      ))}
    </span>
  );
}
