import QRCode from "qrcode";

/** A QR code as one path on a square grid of modules, including the quiet zone (ISO/IEC 18004). */
export interface QrCode {
  /** Modules per side. */
  size: number;
  path: string;
}

/** The white border that readers need around the code, in modules. */
const quietModules = 4;

/** Encodes text as a QR code. */
export function encodeQrCode(text: string): QrCode {
  const { modules } = QRCode.create(text, { errorCorrectionLevel: "M" });
  let path = "";
  for (let row = 0; row < modules.size; row += 1) {
    for (let column = 0; column < modules.size; column += 1) {
      if (!modules.get(row, column)) continue;
      const start = column;
      while (column + 1 < modules.size && modules.get(row, column + 1)) column += 1;
      path += `M${start + quietModules} ${row + quietModules}h${column - start + 1}v1h-${column - start + 1}z`;
    }
  }
  return { size: modules.size + 2 * quietModules, path };
}
