def main(
