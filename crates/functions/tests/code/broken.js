module.exports = (
