// A photo becomes a small data: URL: what is kept in an outbox and sent perhaps ten times should weigh little.

const SIDE = 480;

export async function shrink(file) {
  const image = await createImageBitmap(file);
  const scale = Math.min(1, SIDE / Math.max(image.width, image.height));
  return draw(Math.round(image.width * scale), Math.round(image.height * scale), (context, width, height) => {
    context.drawImage(image, 0, 0, width, height);
    image.close();
  });
}

/** A picture for those who have no camera at hand: a corridor, and the light is out. */
export const sample = () => draw(320, 240, (context, width, height) => {
  const shade = (from, to, ...points) => {
    const fill = context.createLinearGradient(0, 0, 0, height);
    fill.addColorStop(0, from);
    fill.addColorStop(1, to);
    context.fillStyle = fill;
    context.beginPath();
    points.forEach(([x, y], at) => context[at ? "lineTo" : "moveTo"](x, y));
    context.fill();
  };
  shade("#2a3238", "#14181b", [0, 0], [width, 0], [width, height], [0, height]);
  shade("#3a444b", "#1d2327", [0, 0], [120, 80], [120, 160], [0, height]);
  shade("#48545c", "#252c31", [width, 0], [200, 80], [200, 160], [width, height]);
  shade("#5d5546", "#8a7c60", [0, height], [120, 160], [200, 160], [width, height]);
  shade("#6d777d", "#596369", [120, 80], [200, 80], [200, 160], [120, 160]);
  shade("#20262a", "#20262a", [142, 100], [178, 100], [178, 160], [142, 160]);
  shade("#8d979d", "#5c666c", [120, 14], [200, 14], [188, 34], [132, 34]);
});

function draw(width, height, paint) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  paint(canvas.getContext("2d"), width, height);
  return canvas.toDataURL("image/jpeg", 0.7);
}
