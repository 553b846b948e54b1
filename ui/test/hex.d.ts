declare module "*.hex" {
	const text: string;
	export default text;
}
