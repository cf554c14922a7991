import { gatePath, useBrand } from "./brand.ts";

/** Shows the product's mark, and its name by default. */
export function BrandMark({ nameless = false }: { nameless?: boolean }) {
  const { name, mark } = useBrand();
  return (
    <span className="inline-flex items-center gap-2 font-semibold text-large tracking-tight">
      {mark ? (
        <img src={mark} alt="" className="size-6 shrink-0 object-contain" />
      ) : (
        <svg aria-hidden="true" viewBox="0 0 24 24" className="size-6 shrink-0 text-accent" fill="none">
          <path d={gatePath} stroke="currentColor" strokeWidth="2.25" strokeLinecap="round" />
        </svg>
      )}
      {nameless ? null : name}
    </span>
  );
}
